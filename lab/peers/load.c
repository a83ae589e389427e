/* Load for a forwarder at the other end of a veth pair, and the sink of its copies.
 *
 * Sends UDP packets at a steady rate past the queueing discipline and counts the copies that come
 * back, by viewer, in a small BPF program at the interface (TCX) that then drops them: the sink
 * costs the forwarder's processor as little as may be, and the same for every forwarder. Every
 * n-th packet is a sample: the times at which its first and last copy come are noted, by the
 * kernel's timestamps.
 *
 * With --push nothing is forwarded: frames are pushed into the interface as fast as one processor
 * can, which is the limit of every forwarder on it.
 *
 * Prints one line of JSON. All loops are bounded by --seconds. */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <time.h>

#include "wire.h"
#include "xdp.h"

#define VIEWERS_MAX 4096
#define BATCH 32
#define RING_SLOTS 8192
#define RING_SLOT_BYTES 256
#define SAMPLES_MAX 65536
#define SOCKET_BUFFER_BYTES (4 << 20)
/* The copies have stopped when none came for so long. */
#define QUIET_NS 150000000ull
#define QUIET_LIMIT_NS 3000000000ull

#ifndef BPF_TCX_INGRESS /* Linux 6.6; Debian 12's headers are older. */
#define BPF_TCX_INGRESS 46
#endif

/* The first bytes of the payload. */
struct mark {
    uint32_t magic;
    uint32_t sample; /* 1 and more: the number of the sample; 0: none */
    uint64_t sequence;
} __attribute__((packed));
#define MAGIC 0x52455052u

struct sample {
    uint64_t sent_ns, first_ns, last_ns;
    uint32_t n_copies;
};

static struct {
    const char *interface, *samples_path, *push;
    double rate, seconds;
    uint8_t host_mac[6], sfu_mac[6];
    uint32_t sfu_ip, host_ip, first_viewer_ip;
    uint16_t sfu_port, host_port, viewer_port;
    uint32_t n_viewers, frame_len, sample_every;
} config = {.seconds = 1, .frame_len = 1400, .n_viewers = 1};

static struct sample samples[SAMPLES_MAX + 1];
static uint32_t n_samples;

static void fail(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static int map_by_viewer(volatile uint64_t **counts) {
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8,
                           .max_entries = VIEWERS_MAX + 1, .map_flags = BPF_F_MMAPABLE};
    int map = bpf(BPF_MAP_CREATE, &attr);
    if (map < 0) fail("create the map of counts");
    size_t bytes = ((VIEWERS_MAX + 1) * 8 + 4095) / 4096 * 4096;
    *counts = mmap(NULL, bytes, PROT_READ, MAP_SHARED, map, 0);
    if (*counts == MAP_FAILED) fail("map the counts");
    return map;
}

/* counts[dst_ip - first viewer]++, or counts[VIEWERS_MAX]++ for anything else; drop. */
static volatile uint64_t *attach_sink(void) {
    volatile uint64_t *counts;
    int map = map_by_viewer(&counts);
    int32_t first = (int32_t)ntohl(config.first_viewer_ip);
    struct bpf_insn program[] = {
        {.code = BPF_ALU | BPF_MOV | BPF_K, .dst_reg = 6, .imm = VIEWERS_MAX},
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = 76}, /* data */
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 3, .src_reg = 1, .off = 80}, /* data_end */
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 4, .src_reg = 2},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 4, .imm = HEADER_BYTES},
        {.code = BPF_JMP | BPF_JGT | BPF_X, .dst_reg = 4, .src_reg = 3, .off = 5},
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 5, .src_reg = 2, .off = 30}, /* dst_ip */
        {.code = BPF_ALU | BPF_END | BPF_TO_BE, .dst_reg = 5, .imm = 32},
        {.code = BPF_ALU | BPF_SUB | BPF_K, .dst_reg = 5, .imm = first},
        {.code = BPF_JMP | BPF_JGE | BPF_K, .dst_reg = 5, .off = 1, .imm = VIEWERS_MAX},
        {.code = BPF_ALU | BPF_MOV | BPF_X, .dst_reg = 6, .src_reg = 5},
        {.code = BPF_STX | BPF_MEM | BPF_W, .dst_reg = 10, .src_reg = 6, .off = -4},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map},
        {0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 2, .src_reg = 10},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 2, .imm = -4},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem},
        {.code = BPF_JMP | BPF_JEQ | BPF_K, .dst_reg = 0, .off = 2, .imm = 0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 1, .imm = 1},
        {.code = BPF_STX | BPF_ATOMIC | BPF_DW, .dst_reg = 0, .src_reg = 1, .imm = BPF_ADD},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 2}, /* TC_ACT_SHOT */
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_SCHED_CLS, .insns = (uintptr_t)program,
                           .insn_cnt = sizeof program / sizeof program[0],
                           .license = (uintptr_t) "GPL"};
    int loaded = bpf(BPF_PROG_LOAD, &attr);
    if (loaded < 0) fail("load the sink's program");
    memset(&attr, 0, sizeof attr);
    attr.link_create.prog_fd = (uint32_t)loaded;
    attr.link_create.target_ifindex = if_nametoindex(config.interface);
    attr.link_create.attach_type = (uint32_t)BPF_TCX_INGRESS;
    if (bpf(BPF_LINK_CREATE, &attr) < 0) fail("attach the sink's program");
    return counts;
}

static int packet_socket(int protocol) {
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0) fail("open a packet socket");
    int size = SOCKET_BUFFER_BYTES, on = 1;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    if (protocol == 0) setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)protocol),
                                  .sll_ifindex = (int)if_nametoindex(config.interface)};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("bind a packet socket");
    return fd;
}

/* The ring sees samples only: a classic filter looks at the mark. */
static uint8_t *sample_ring(void) {
    int fd = packet_socket(0);
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, HEADER_BYTES),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MAGIC, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, HEADER_BYTES + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 96),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof code[0], .filter = code};
    int version = TPACKET_V2, on = 1;
    struct tpacket_req request = {.tp_block_size = 65536, .tp_frame_size = RING_SLOT_BYTES,
                                  .tp_block_nr = RING_SLOTS / (65536 / RING_SLOT_BYTES),
                                  .tp_frame_nr = RING_SLOTS};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0)
        fail("set up the sample ring");
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL),
                                  .sll_ifindex = (int)if_nametoindex(config.interface)};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("bind the sample ring");
    uint8_t *ring = mmap(NULL, (size_t)RING_SLOTS * RING_SLOT_BYTES, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_POPULATE, fd, 0);
    if (ring == MAP_FAILED) fail("map the sample ring");
    return ring;
}

static void read_samples(uint8_t *ring, uint32_t *slot) {
    for (;;) {
        struct tpacket2_hdr *info = (void *)(ring + (size_t)*slot * RING_SLOT_BYTES);
        _Atomic uint32_t *status = (_Atomic uint32_t *)&info->tp_status;
        if (!(atomic_load_explicit(status, memory_order_acquire) & TP_STATUS_USER)) return;
        struct mark mark;
        memcpy(&mark, (uint8_t *)info + info->tp_mac + HEADER_BYTES, sizeof mark);
        uint64_t at_ns = (uint64_t)info->tp_sec * 1000000000u + info->tp_nsec;
        uint32_t number = ntohl(mark.sample);
        if (number <= n_samples) {
            struct sample *sample = &samples[number];
            if (sample->n_copies++ == 0) sample->first_ns = at_ns;
            sample->last_ns = at_ns;
        }
        atomic_store_explicit(status, TP_STATUS_KERNEL, memory_order_release);
        *slot = (*slot + 1) % RING_SLOTS;
    }
}

static uint32_t frame_template(uint8_t *frame) {
    struct header *header = (struct header *)frame;
    memset(frame, 0, FRAME_BYTES_MAX);
    for (uint32_t at = HEADER_BYTES; at < config.frame_len; at++) frame[at] = (uint8_t)(at * 31);
    memcpy(header->dst_mac, config.sfu_mac, 6);
    memcpy(header->src_mac, config.host_mac, 6);
    header->ether_type = htons(ETH_P_IP);
    header->version_ihl = 0x45;
    header->total_len = htons((uint16_t)(config.frame_len - ETHERNET_BYTES));
    header->ttl = 64;
    header->protocol = IPPROTO_UDP;
    header->src_ip = config.host_ip;
    header->dst_ip = config.sfu_ip;
    header->src_port = config.host_port;
    header->dst_port = config.sfu_port;
    header->udp_len = htons((uint16_t)(config.frame_len - ETHERNET_BYTES - IPV4_BYTES));
    header->ip_checksum = ip_checksum_of(header);
    return config.frame_len;
}

static void set_mark(uint8_t *frame, uint64_t sequence, uint32_t sample) {
    struct mark mark = {htonl(MAGIC), htonl(sample), sequence};
    memcpy(frame + HEADER_BYTES, &mark, sizeof mark);
    struct header *header = (struct header *)frame;
    header->udp_checksum = 0;
    header->udp_checksum = udp_checksum_of(header);
}

struct sender {
    int fd;
    uint8_t frames[BATCH][FRAME_BYTES_MAX];
    struct iovec parts[BATCH];
    struct mmsghdr messages[BATCH];
    uint64_t n_sent;
};

static void open_sender(struct sender *sender) {
    sender->fd = packet_socket(0);
    for (int i = 0; i < BATCH; i++) {
        uint32_t len = frame_template(sender->frames[i]);
        sender->parts[i] = (struct iovec){sender->frames[i], len};
        sender->messages[i].msg_hdr.msg_iov = &sender->parts[i];
        sender->messages[i].msg_hdr.msg_iovlen = 1;
        set_mark(sender->frames[i], 0, 0);
    }
}

/* Sends `n` packets, some of them samples. */
static void send_some(struct sender *sender, uint32_t n) {
    uint32_t first_sample = n_samples + 1;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t sequence = sender->n_sent + i;
        struct mark mark;
        memcpy(&mark, sender->frames[i] + HEADER_BYTES, sizeof mark);
        bool is_sample = config.sample_every != 0 && sequence % config.sample_every == 0 &&
                         n_samples < SAMPLES_MAX;
        if (is_sample) set_mark(sender->frames[i], sequence, ++n_samples);
        else if (mark.sample != 0) set_mark(sender->frames[i], 0, 0);
    }
    uint64_t now = clock_ns(CLOCK_REALTIME);
    for (uint32_t number = first_sample; number <= n_samples; number++) samples[number].sent_ns = now;
    for (uint32_t done = 0; done < n;) {
        int sent = sendmmsg(sender->fd, sender->messages + done, n - done, 0);
        if (sent > 0) done += (uint32_t)sent;
        else if (errno != EAGAIN && errno != ENOBUFS && errno != EINTR) fail("send");
    }
    sender->n_sent += n;
}

static uint64_t total_of(volatile uint64_t *counts) {
    uint64_t total = 0;
    for (uint32_t viewer = 0; viewer < config.n_viewers; viewer++) total += counts[viewer];
    return total;
}

static void write_samples(void) {
    if (config.samples_path == NULL) return;
    FILE *file = fopen(config.samples_path, "w");
    if (file == NULL) fail(config.samples_path);
    fprintf(file, "copies,first_copy_ns,last_copy_ns\n");
    for (uint32_t number = 1; number <= n_samples; number++) {
        struct sample *sample = &samples[number];
        bool came = sample->n_copies != 0;
        fprintf(file, "%u,%ld,%ld\n", sample->n_copies,
                came ? (long)(sample->first_ns - sample->sent_ns) : 0,
                came ? (long)(sample->last_ns - sample->sent_ns) : 0);
    }
    fclose(file);
}

static void run_load(void) {
    volatile uint64_t *counts = attach_sink();
    uint8_t *ring = config.sample_every != 0 ? sample_ring() : NULL;
    uint32_t slot = 0;
    static struct sender sender;
    open_sender(&sender);
    uint64_t start = clock_ns(CLOCK_MONOTONIC), now = start;
    uint64_t span_ns = (uint64_t)(config.seconds * 1e9);
    while ((now = clock_ns(CLOCK_MONOTONIC)) - start < span_ns) {
        uint64_t due = (uint64_t)((double)(now - start) * config.rate / 1e9) + 1;
        if (due > sender.n_sent) {
            uint64_t n = due - sender.n_sent;
            send_some(&sender, n < BATCH ? (uint32_t)n : BATCH);
        }
        if (ring != NULL) read_samples(ring, &slot);
    }
    uint64_t sent_for_ns = now - start, at_end = total_of(counts), before = at_end;
    uint64_t quiet_since = now, limit = now + QUIET_LIMIT_NS;
    while ((now = clock_ns(CLOCK_MONOTONIC)) < limit && now - quiet_since < QUIET_NS) {
        uint64_t total = total_of(counts);
        if (total != before) quiet_since = now;
        before = total;
        if (ring != NULL) read_samples(ring, &slot);
        usleep(200);
    }
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t viewer = 0; viewer < config.n_viewers; viewer++) {
        if (counts[viewer] < least) least = counts[viewer];
        if (counts[viewer] > most) most = counts[viewer];
    }
    write_samples();
    printf("{\"sent\": %lu, \"seconds\": %.6f, \"copies\": %lu, \"copies_while_sending\": %lu, "
           "\"copies_of_viewer_min\": %lu, \"copies_of_viewer_max\": %lu, \"others\": %lu}\n",
           sender.n_sent, (double)sent_for_ns / 1e9, total_of(counts), at_end, least, most,
           counts[VIEWERS_MAX]);
}

static void run_push(void) {
    uint64_t start = clock_ns(CLOCK_MONOTONIC), now = start, n_frames = 0;
    uint64_t span_ns = (uint64_t)(config.seconds * 1e9);
    if (strcmp(config.push, "afxdp") == 0) {
        static struct xdp_socket xdp;
        static uint8_t frame[FRAME_BYTES_MAX];
        uint32_t len = frame_template(frame);
        set_mark(frame, 0, 0);
        xdp_open(&xdp, config.interface);
        start = clock_ns(CLOCK_MONOTONIC);
        while ((now = clock_ns(CLOCK_MONOTONIC)) - start < span_ns) {
            for (int i = 0; i < BATCH; i++) {
                uint64_t address;
                memcpy(xdp_frame(&xdp, &address), frame, len);
                xdp_send(&xdp, address, len);
            }
            n_frames += BATCH;
        }
    } else {
        static struct sender sender;
        open_sender(&sender);
        while ((now = clock_ns(CLOCK_MONOTONIC)) - start < span_ns) send_some(&sender, BATCH);
        n_frames = sender.n_sent;
    }
    printf("{\"sent\": %lu, \"seconds\": %.6f}\n", n_frames, (double)(now - start) / 1e9);
}

static const char usage[] =
    "usage: load --interface NAME --rate PACKETS_PER_SECOND --seconds S --viewers N\n"
    "            --sfu ADDRESS:PORT --host ADDRESS:PORT --first-viewer ADDRESS:PORT\n"
    "            --sfu-mac MAC --host-mac MAC [--frame-len BYTES] [--sample-every N\n"
    "            --samples FILE]\n"
    "       load --push afpacket|afxdp --interface NAME --seconds S --sfu ... --host ...\n";

static void parse(int argc, char **argv) {
    static const struct option options[] = {
        {"interface", 1, NULL, 'i'},    {"rate", 1, NULL, 'r'},     {"seconds", 1, NULL, 't'},
        {"viewers", 1, NULL, 'n'},      {"sfu", 1, NULL, 's'},      {"host", 1, NULL, 'h'},
        {"first-viewer", 1, NULL, 'v'}, {"sfu-mac", 1, NULL, 'm'},  {"host-mac", 1, NULL, 'x'},
        {"frame-len", 1, NULL, 'l'},    {"sample-every", 1, NULL, 'e'},
        {"samples", 1, NULL, 'f'},      {"push", 1, NULL, 'p'},     {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'i': config.interface = optarg; break;
        case 'r': config.rate = strtod(optarg, NULL); break;
        case 't': config.seconds = strtod(optarg, NULL); break;
        case 'n': config.n_viewers = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 's': parse_endpoint(optarg, &config.sfu_ip, &config.sfu_port); break;
        case 'h': parse_endpoint(optarg, &config.host_ip, &config.host_port); break;
        case 'v': parse_endpoint(optarg, &config.first_viewer_ip, &config.viewer_port); break;
        case 'm': parse_mac(optarg, config.sfu_mac); break;
        case 'x': parse_mac(optarg, config.host_mac); break;
        case 'l': config.frame_len = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'e': config.sample_every = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'f': config.samples_path = optarg; break;
        case 'p': config.push = optarg; break;
        default: fputs(usage, stderr); exit(2);
        }
    }
    bool is_sound = config.interface != NULL && (config.push != NULL || config.rate > 0) &&
                    config.seconds > 0 && config.seconds <= 600 && config.n_viewers >= 1 &&
                    config.n_viewers <= VIEWERS_MAX && config.frame_len <= FRAME_BYTES_MAX &&
                    config.frame_len >= HEADER_BYTES + sizeof(struct mark) && config.sfu_ip != 0 &&
                    config.host_ip != 0;
    if (!is_sound) {
        fputs(usage, stderr);
        exit(2);
    }
}

int main(int argc, char **argv) {
    parse(argc, argv);
    if (config.push != NULL) run_push();
    else run_load();
    return 0;
}
