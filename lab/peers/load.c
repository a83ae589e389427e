/* The load for a forwarder at the other end of a veth pair, and the sink of the copies that it
 * makes.
 *
 * Sends UDP packets at a steady rate past the queueing discipline. A small BPF program at the
 * interface (TCX) counts the copies that come back, by viewer, and drops them: so the sink costs
 * the forwarder's processor as little as possible, and the same for every forwarder. Every n-th
 * packet is a sample: the kernel's timestamps of its first and of its last copy are recorded.
 *
 * With --audio-every some packets are audio: they go to a port of their own, are marked for
 * expedited forwarding (RFC 3246), and are for as many further viewers, whose addresses follow the
 * first ones'.
 *
 * With --xdp-sink this program runs at the interface's XDP hook, and lets samples pass. Copies that
 * a forwarder in the kernel redirects get there before the kernel makes a packet (an skb) of each,
 * which costs more than the copy itself.
 *
 * With --refused-are-lost a packet is lost if the interface does not accept it, as at a network
 * card. This happens when a forwarder in the kernel falls behind. Without the option the packet is
 * offered again.
 *
 * With --watch every packet has its number and the time of its sending in it. For each address the
 * sink records the first and the last packet whose copy came, and how many copies came out of
 * order.
 *
 * With --frames the packets are those of a file, in turn and repeatedly. --sink then names the
 * interface at which they are counted, for a switch between two ports. One processor has to send
 * more small frames than another can switch, which is impossible through a socket. Therefore an XDP
 * program writes the frames and redirects them into the interface (BPF_F_TEST_XDP_LIVE_FRAMES). The
 * other end of the pair must have an XDP program or GRO, otherwise it accepts no such frames.
 *
 * With --start-at the load begins at a time of the monotonic clock, so that several can begin
 * together. With --no-sink this load has no sink: an interface has only one, and that of another
 * load counts these copies, too.
 *
 * With --push nothing is forwarded: frames are pushed into the interface as fast as one processor
 * can. This rate is the upper limit of every forwarder on the interface.
 *
 * Prints one line of JSON at the end, with --watch also one every second. All loops are bounded
 * by --seconds. */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "wire.h"
#include "xdp.h"

#define VIEWERS_MAX 65536
#define BATCH 32
#define RING_SLOTS 8192
#define RING_SLOT_BYTES 256
#define SAMPLES_MAX 65536
#define SOCKET_BUFFER_BYTES (4 << 20)
/* The load waits for copies until none has come for this long. */
#define QUIET_NS 100000000ull
/* A slow forwarder may take seconds to empty its queues. */
#define QUIET_LIMIT_NS 10000000000ull
#define REPORT_NS 1000000000ull
#define SECONDS_MAX 3600
#define WATCHING_PAUSE_US 100
#define START_PAUSE_US 20
#define WATCHING_BEHIND_MAX 1024
#define TOS_EXPEDITED 0xb8
/* Limits of --frames, which has small frames, for switches. */
#define GIVEN_MAX 65536
#define GIVEN_BYTES_MAX 512
#define GIVEN_INSNS_MAX (64 + GIVEN_BYTES_MAX / 4 + 32)
/* The number of fractional bits in the fixed-point rate in packets a nanosecond. */
#define RATE_BITS 28
#define WAIT_NS 20000
/* Shorter than QUIET_NS: there is one copy a packet, and a switch between two ports holds at
 * most a ring full. */
#define GIVEN_QUIET_NS 40000000ull

#ifndef BPF_TCX_INGRESS /* Linux 6.6; Debian 12's headers are older. */
#define BPF_TCX_INGRESS 46
#endif

/* The first bytes of the payload. */
struct mark {
    uint32_t magic;
    uint32_t sample; /* the number of the sample, from 1; 0: not a sample */
    uint64_t sequence;
} __attribute__((packed));
#define MAGIC 0x52455052u

/* Follows the mark, with --watch. */
struct stamp {
    uint64_t sent_ns; /* since 1970 */
} __attribute__((packed));

/* What the sink records for an address with --watch. `watch_part` has the offsets of these
 * fields. */
struct watched {
    uint64_t copies, first_sequence, last_sequence, first_sent_ns, last_sent_ns, misordered;
};

struct sample {
    uint64_t sent_ns, first_ns, last_ns, sum_ns;
    uint32_t n_copies;
};

static struct {
    const char *interface, *sink_interface, *frames_path, *samples_path, *push, *watch_path;
    double rate, seconds;
    uint64_t n_packets_max;
    uint8_t host_mac[6], sfu_mac[6];
    uint32_t sfu_ip, host_ip, first_viewer_ip;
    uint16_t sfu_port, host_port, viewer_port, audio_port;
    uint32_t n_viewers, frame_len, sample_every, audio_every;
    uint64_t start_ns; /* of the monotonic clock */
    bool refused_are_lost, is_sink_xdp, has_no_sink;
} config = {.seconds = 1, .frame_len = 1400, .n_viewers = 1, .n_packets_max = UINT64_MAX};

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

/* Makes a BPF array that this process can read and write as memory. */
static int shared_map(uint32_t n, size_t value_bytes, volatile void **values) {
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4,
                           .value_size = (uint32_t)value_bytes, .max_entries = n,
                           .map_flags = BPF_F_MMAPABLE};
    int map = bpf(BPF_MAP_CREATE, &attr);
    if (map < 0) fail("create a map");
    size_t bytes = (n * value_bytes + 4095) / 4096 * 4096;
    *values = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, map, 0);
    if (*values == MAP_FAILED) fail("map a map");
    return map;
}

static int map_by_address(size_t value_bytes, volatile void **values) {
    return shared_map(VIEWERS_MAX + 1, value_bytes, values);
}

#define INSN(...) ((struct bpf_insn){__VA_ARGS__})
#define LOAD(size, to, from, at) \
    INSN(.code = BPF_LDX | BPF_MEM | (size), .dst_reg = (to), .src_reg = (from), .off = (at))
#define STORE(size, to, at, from) \
    INSN(.code = BPF_STX | BPF_MEM | (size), .dst_reg = (to), .src_reg = (from), .off = (at))
#define MOVE(to, from) INSN(.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = (to), .src_reg = (from))
#define SET(to, value) INSN(.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = (to), .imm = (value))
#define ADD(to, value) INSN(.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = (to), .imm = (value))
#define SKIP_IF(how, a, b, n) \
    INSN(.code = BPF_JMP | (how) | BPF_X, .dst_reg = (a), .src_reg = (b), .off = (n))
#define SKIP_IF_VALUE(how, a, value, n) \
    INSN(.code = BPF_JMP | (how) | BPF_K, .dst_reg = (a), .off = (n), .imm = (value))
#define SKIP(n) INSN(.code = BPF_JMP | BPF_JA, .off = (n))
#define MAP(to, map) \
    INSN(.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = (to), .src_reg = BPF_PSEUDO_MAP_FD, \
         .imm = (map)), INSN(0)
#define CALL(function) INSN(.code = BPF_JMP | BPF_CALL, .imm = (function))
#define SINK_INSNS_MAX 80

/* counts[dst_ip - first viewer]++, or counts[VIEWERS_MAX]++ for anything else. Leaves the frame in
 * r7, its end in r8, the index on the stack. */
static uint32_t count_part(struct bpf_insn *to, int map) {
    int32_t first = (int32_t)ntohl(config.first_viewer_ip);
    /* Where `struct __sk_buff` and `struct xdp_md` have data and data_end. */
    int16_t data = config.is_sink_xdp ? 0 : 76, data_end = config.is_sink_xdp ? 4 : 80;
    const struct bpf_insn part[] = {
        SET(6, VIEWERS_MAX),
        LOAD(BPF_W, 7, 1, data),
        LOAD(BPF_W, 8, 1, data_end),
        MOVE(4, 7),
        ADD(4, HEADER_BYTES),
        SKIP_IF(BPF_JGT, 4, 8, 5),
        LOAD(BPF_W, 5, 7, 30), /* dst_ip */
        INSN(.code = BPF_ALU | BPF_END | BPF_TO_BE, .dst_reg = 5, .imm = 32),
        INSN(.code = BPF_ALU | BPF_SUB | BPF_K, .dst_reg = 5, .imm = first),
        SKIP_IF_VALUE(BPF_JGE, 5, VIEWERS_MAX, 1),
        MOVE(6, 5),
        STORE(BPF_W, 10, -4, 6),
        MAP(1, map),
        MOVE(2, 10),
        ADD(2, -4),
        CALL(BPF_FUNC_map_lookup_elem),
        SKIP_IF_VALUE(BPF_JEQ, 0, 0, 2),
        SET(1, 1),
        INSN(.code = BPF_STX | BPF_ATOMIC | BPF_DW, .dst_reg = 0, .src_reg = 1, .imm = BPF_ADD),
    };
    memcpy(to, part, sizeof part);
    return sizeof part / sizeof part[0];
}

/* Updates `struct watched` from the packet's sequence (r1) and the time of its sending (r2). One
 * processor receives all copies, so plain stores suffice. */
static uint32_t watch_part(struct bpf_insn *to, int map) {
    const struct bpf_insn part[] = {
        MOVE(1, 7),
        ADD(1, HEADER_BYTES + sizeof(struct mark) + sizeof(struct stamp)),
        SKIP_IF(BPF_JGT, 1, 8, 22),
        MAP(1, map),
        MOVE(2, 10),
        ADD(2, -4),
        CALL(BPF_FUNC_map_lookup_elem),
        SKIP_IF_VALUE(BPF_JEQ, 0, 0, 16),
        LOAD(BPF_DW, 1, 7, HEADER_BYTES + 8),
        LOAD(BPF_DW, 2, 7, HEADER_BYTES + sizeof(struct mark)),
        LOAD(BPF_DW, 3, 0, 0), /* copies */
        SKIP_IF_VALUE(BPF_JNE, 3, 0, 3),
        STORE(BPF_DW, 0, 8, 1),  /* first_sequence */
        STORE(BPF_DW, 0, 24, 2), /* first_sent_ns */
        SKIP(5),
        LOAD(BPF_DW, 4, 0, 16),
        SKIP_IF(BPF_JGT, 1, 4, 3),
        LOAD(BPF_DW, 4, 0, 40),
        ADD(4, 1),
        STORE(BPF_DW, 0, 40, 4), /* misordered */
        STORE(BPF_DW, 0, 16, 1), /* last_sequence */
        STORE(BPF_DW, 0, 32, 2), /* last_sent_ns */
        ADD(3, 1),
        STORE(BPF_DW, 0, 0, 3),
    };
    memcpy(to, part, sizeof part);
    return sizeof part / sizeof part[0];
}

static volatile uint64_t *counts;
static volatile struct watched *watched;

/* Drops all packets but samples, which must reach the ring of samples. */
static uint32_t pass_samples_part(struct bpf_insn *to) {
    const struct bpf_insn part[] = {
        SET(0, XDP_DROP),
        MOVE(1, 7),
        ADD(1, HEADER_BYTES + sizeof(struct mark)),
        SKIP_IF(BPF_JGT, 1, 8, 5),
        LOAD(BPF_W, 2, 7, HEADER_BYTES),
        SKIP_IF_VALUE(BPF_JNE, 2, (int32_t)htonl(MAGIC), 3),
        LOAD(BPF_W, 2, 7, HEADER_BYTES + 4), /* sample */
        SKIP_IF_VALUE(BPF_JEQ, 2, 0, 1),
        SET(0, XDP_PASS),
    };
    memcpy(to, part, sizeof part);
    return sizeof part / sizeof part[0];
}

static void attach(struct bpf_insn *program, uint32_t n, bool is_xdp) {
    program[n++] = INSN(.code = BPF_JMP | BPF_EXIT);
    union bpf_attr attr = {.prog_type = is_xdp ? BPF_PROG_TYPE_XDP : BPF_PROG_TYPE_SCHED_CLS,
                           .insns = (uintptr_t)program, .insn_cnt = n,
                           .license = (uintptr_t) "GPL"};
    int loaded = bpf(BPF_PROG_LOAD, &attr);
    if (loaded < 0) fail("load the sink's program");
    memset(&attr, 0, sizeof attr);
    attr.link_create.prog_fd = (uint32_t)loaded;
    attr.link_create.target_ifindex = if_nametoindex(config.sink_interface);
    attr.link_create.attach_type = is_xdp ? (uint32_t)BPF_XDP : (uint32_t)BPF_TCX_INGRESS;
    if (is_xdp) attr.link_create.flags = XDP_FLAGS_DRV_MODE;
    if (bpf(BPF_LINK_CREATE, &attr) < 0) fail("attach the sink's program");
}

static void attach_sink(void) {
    struct bpf_insn program[SINK_INSNS_MAX];
    if (config.has_no_sink) {
        static uint64_t none[VIEWERS_MAX + 1];
        counts = none; /* Another load at this interface counts. */
        return;
    }
    uint32_t n = count_part(program, map_by_address(8, (volatile void **)&counts));
    if (config.watch_path != NULL)
        n += watch_part(program + n, map_by_address(sizeof *watched, (volatile void **)&watched));
    if (config.is_sink_xdp) {
        attach(program, n + pass_samples_part(program + n), true);
        n = 0; /* the program at TCX then only drops the samples */
    }
    program[n++] = SET(0, 2); /* TC_ACT_SHOT */
    attach(program, n, false);
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

/* Opens the ring of samples. A classic BPF filter looks at the mark, so that the ring gets only
 * samples. */
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
            sample->sum_ns += at_ns - sample->sent_ns;
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
    if (config.watch_path != NULL) {
        struct stamp stamp = {clock_ns(CLOCK_REALTIME)};
        memcpy(frame + HEADER_BYTES + sizeof mark, &stamp, sizeof stamp);
    }
    struct header *header = (struct header *)frame;
    header->udp_checksum = 0;
    header->udp_checksum = udp_checksum_of(header);
}

static void mark_audio(uint8_t *frame) {
    struct header *header = (struct header *)frame;
    header->dst_port = config.audio_port;
    header->tos = TOS_EXPEDITED;
    header->ip_checksum = 0;
    header->ip_checksum = ip_checksum_of(header);
    set_mark(frame, 0, 0);
}

/* Shared by this process and the program that sends. `choose_part` has the offsets of these
 * fields. */
struct sending {
    uint64_t n_sent, start_ns, is_over;
};

/* The frames of --frames, all of one length, in a map from which the sending program copies
 * them. */
struct given {
    uint32_t n, len;
    int map, program;
    volatile struct sending *sending;
};

static uint32_t parse_hex(const char *line, uint8_t *bytes) {
    uint32_t len = 0;
    for (unsigned byte; len < GIVEN_BYTES_MAX && sscanf(line + 2 * len, "%2x", &byte) == 1; len++)
        bytes[len] = (uint8_t)byte;
    return len;
}

static struct given read_frames(void) {
    FILE *file = fopen(config.frames_path, "r");
    if (file == NULL) fail(config.frames_path);
    struct given given = {0};
    volatile uint8_t *frames;
    given.map = shared_map(GIVEN_MAX, GIVEN_BYTES_MAX, (volatile void **)&frames);
    static char line[2 * GIVEN_BYTES_MAX + 2];
    static uint8_t frame[GIVEN_BYTES_MAX];
    for (; given.n < GIVEN_MAX && fgets(line, sizeof line, file) != NULL; given.n++) {
        uint32_t len = parse_hex(line, frame);
        if (given.n == 0) given.len = len;
        if (len < ETHERNET_BYTES || len != given.len || line[2 * len] != '\n') {
            fprintf(stderr, "load: %s, line %u: expected %u to %u bytes in hexadecimal, as many as "
                            "in the first\n",
                    config.frames_path, given.n + 1, ETHERNET_BYTES, GIVEN_BYTES_MAX);
            exit(2);
        }
        memcpy((uint8_t *)frames + (size_t)given.n * GIVEN_BYTES_MAX, frame, len);
    }
    if (given.n == 0) {
        fprintf(stderr, "load: %s: expected a frame a line, found none\n", config.frames_path);
        exit(2);
    }
    fclose(file);
    return given;
}

/* Marks a jump to the end of the program, where no packet is sent. Its distance is filled in
 * last. */
#define LEAVE INT16_MAX

static uint32_t choose_part(struct bpf_insn *to, const struct given *given, int sending) {
    int32_t packets_per_ns = (int32_t)(config.rate / 1e9 * (double)(1u << RATE_BITS) + 0.5);
    const struct bpf_insn part[] = {
        LOAD(BPF_W, 7, 1, 0), /* data */
        LOAD(BPF_W, 8, 1, 4), /* data_end */
        MOVE(1, 7),
        ADD(1, (int32_t)given->len),
        SKIP_IF(BPF_JGT, 1, 8, LEAVE),
        INSN(.code = BPF_ST | BPF_MEM | BPF_W, .dst_reg = 10, .off = -4),
        MAP(1, sending),
        MOVE(2, 10),
        ADD(2, -4),
        CALL(BPF_FUNC_map_lookup_elem),
        SKIP_IF_VALUE(BPF_JEQ, 0, 0, LEAVE),
        MOVE(6, 0),
        LOAD(BPF_DW, 1, 6, 16), /* is_over */
        SKIP_IF_VALUE(BPF_JNE, 1, 0, LEAVE),
        CALL(BPF_FUNC_ktime_get_ns),
        LOAD(BPF_DW, 1, 6, 8), /* start_ns */
        SKIP_IF_VALUE(BPF_JNE, 1, 0, 2),
        STORE(BPF_DW, 6, 8, 0),
        MOVE(1, 0),
        INSN(.code = BPF_ALU64 | BPF_SUB | BPF_X, .dst_reg = 0, .src_reg = 1),
        INSN(.code = BPF_ALU64 | BPF_MUL | BPF_K, .dst_reg = 0, .imm = packets_per_ns),
        INSN(.code = BPF_ALU64 | BPF_RSH | BPF_K, .dst_reg = 0, .imm = RATE_BITS),
        LOAD(BPF_DW, 1, 6, 0), /* n_sent */
        SKIP_IF(BPF_JGT, 1, 0, LEAVE),
        MOVE(2, 1),
        ADD(2, 1),
        STORE(BPF_DW, 6, 0, 2),
        INSN(.code = BPF_ALU64 | BPF_MOD | BPF_K, .dst_reg = 1, .imm = (int32_t)given->n),
        STORE(BPF_W, 10, -4, 1),
        MAP(1, given->map),
        MOVE(2, 10),
        ADD(2, -4),
        CALL(BPF_FUNC_map_lookup_elem),
        SKIP_IF_VALUE(BPF_JEQ, 0, 0, LEAVE),
    };
    memcpy(to, part, sizeof part);
    return sizeof part / sizeof part[0];
}

/* Loads the program that sends. Each time it runs, unless sending is over or no packet is due,
 * it redirects frames[n_sent++ % n] to the interface. */
static void load_frames_program(struct given *given) {
    static struct bpf_insn program[GIVEN_INSNS_MAX];
    int sending = shared_map(1, sizeof(struct sending), (volatile void **)&given->sending);
    uint32_t n = choose_part(program, given, sending);
    for (uint32_t at = 0; at < given->len;) {
        uint8_t size = given->len - at >= 8 ? BPF_DW : BPF_B;
        program[n++] = LOAD(size, 1, 0, (int16_t)at);
        program[n++] = STORE(size, 7, (int16_t)at, 1);
        at += size == BPF_DW ? 8 : 1;
    }
    program[n++] = SET(1, (int32_t)if_nametoindex(config.interface));
    program[n++] = SET(2, 0);
    program[n++] = CALL(BPF_FUNC_redirect);
    program[n++] = INSN(.code = BPF_JMP | BPF_EXIT);
    for (uint32_t i = 0; i < n; i++)
        if (program[i].off == LEAVE) program[i].off = (int16_t)(n - i - 1);
    program[n++] = SET(0, XDP_DROP);
    program[n++] = INSN(.code = BPF_JMP | BPF_EXIT);
    union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)program,
                           .insn_cnt = n, .license = (uintptr_t) "GPL"};
    given->program = bpf(BPF_PROG_LOAD, &attr);
    if (given->program < 0) fail("load the program that sends");
}

static void wake(int signal) { (void)signal; }

/* One call sends all packets, because each call takes 25 ms to return. A signal ends it. */
static void *send_given(void *argument) {
    const struct given *given = argument;
    static uint8_t blank[GIVEN_BYTES_MAX];
    union bpf_attr attr = {.test = {.prog_fd = (uint32_t)given->program, .repeat = INT32_MAX,
                                    .data_in = (uintptr_t)blank, .data_size_in = given->len,
                                    .flags = BPF_F_TEST_XDP_LIVE_FRAMES}};
    while (!given->sending->is_over)
        if (bpf(BPF_PROG_TEST_RUN, &attr) < 0 && errno != EINTR) fail("send frames");
    return NULL;
}

struct sender {
    int fd;
    uint8_t frames[BATCH][FRAME_BYTES_MAX], audio[FRAME_BYTES_MAX];
    struct iovec parts[BATCH];
    struct mmsghdr messages[BATCH];
    uint64_t n_sent, n_audio, n_refusals;
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
    frame_template(sender->audio);
    if (config.audio_every != 0) mark_audio(sender->audio);
}

static bool is_audio(uint64_t sequence) {
    return config.audio_every != 0 && sequence % config.audio_every == config.audio_every - 1;
}

static void prepare_packet(struct sender *sender, uint32_t i, uint64_t sequence) {
    sender->parts[i].iov_base = sender->frames[i];
    if (is_audio(sequence)) {
        sender->parts[i].iov_base = sender->audio;
        sender->n_audio++;
        return;
    }
    struct mark mark;
    memcpy(&mark, sender->frames[i] + HEADER_BYTES, sizeof mark);
    bool is_sample = config.sample_every != 0 && sequence % config.sample_every == 0 &&
                     n_samples < SAMPLES_MAX;
    if (is_sample) set_mark(sender->frames[i], sequence, ++n_samples);
    else if (config.watch_path != NULL || mark.sample != 0)
        set_mark(sender->frames[i], sequence, 0);
}

/* Sends `n` packets, some of them samples, some of them audio. */
static void send_some(struct sender *sender, uint32_t n) {
    uint32_t first_sample = n_samples + 1;
    for (uint32_t i = 0; i < n; i++) prepare_packet(sender, i, sender->n_sent + i);
    uint64_t now = clock_ns(CLOCK_REALTIME);
    for (uint32_t number = first_sample; number <= n_samples; number++) samples[number].sent_ns = now;
    for (uint32_t done = 0; done < n;) {
        int sent = sendmmsg(sender->fd, sender->messages + done, n - done, 0);
        if (sent > 0) done += (uint32_t)sent;
        else if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) {
            sender->n_refusals++;
            done += errno == ENOBUFS && config.refused_are_lost;
        }
        else fail("send");
    }
    sender->n_sent += n;
}

static uint64_t total_of(uint32_t first, uint32_t n) {
    uint64_t total = 0;
    for (uint32_t address = first; address < first + n; address++) total += counts[address];
    return total;
}

static void write_samples(void) {
    if (config.samples_path == NULL) return;
    FILE *file = fopen(config.samples_path, "w");
    if (file == NULL) fail(config.samples_path);
    fprintf(file, "copies,first_copy_ns,last_copy_ns,sum_ns\n");
    for (uint32_t number = 1; number <= n_samples; number++) {
        struct sample *sample = &samples[number];
        bool came = sample->n_copies != 0;
        fprintf(file, "%u,%ld,%ld,%lu\n", sample->n_copies,
                came ? (long)(sample->first_ns - sample->sent_ns) : 0,
                came ? (long)(sample->last_ns - sample->sent_ns) : 0, sample->sum_ns);
    }
    fclose(file);
}

static void write_watched(void) {
    if (config.watch_path == NULL) return;
    FILE *file = fopen(config.watch_path, "w");
    if (file == NULL) fail(config.watch_path);
    fprintf(file, "address,copies,first_sequence,last_sequence,first_sent_ns,last_sent_ns,"
                  "misordered\n");
    for (uint32_t address = 0; address < VIEWERS_MAX; address++) {
        volatile struct watched *one = &watched[address];
        if (one->copies == 0) continue;
        fprintf(file, "%u,%lu,%lu,%lu,%lu,%lu,%lu\n", address, one->copies, one->first_sequence,
                one->last_sequence, one->first_sent_ns, one->last_sent_ns, one->misordered);
    }
    fclose(file);
}

static void report_progress(const struct sender *sender) {
    printf("{\"sent\": %lu, \"copies\": %lu}\n", sender->n_sent, total_of(0, VIEWERS_MAX));
    fflush(stdout);
}

static volatile sig_atomic_t is_stopped;

/* SIGINT ends the sending. The results are printed all the same. */
static void stop(int signal) {
    (void)signal;
    is_stopped = 1;
}

/* Waits until no copy has come for `quiet_ns`. */
static void wait_until_quiet(uint32_t n_addresses, uint64_t quiet_ns, uint8_t *ring, uint32_t *slot) {
    uint64_t now = clock_ns(CLOCK_MONOTONIC), quiet_since = now, limit = now + QUIET_LIMIT_NS;
    uint64_t before = total_of(0, n_addresses);
    while ((now = clock_ns(CLOCK_MONOTONIC)) < limit && now - quiet_since < quiet_ns) {
        uint64_t total = total_of(0, n_addresses);
        if (total != before) quiet_since = now;
        before = total;
        if (ring != NULL) read_samples(ring, slot);
        usleep(200);
    }
}

/* Prints the line of JSON. `at_end` is the number of copies that had come when the last packet
 * was sent. */
static void report(uint64_t n_sent, uint64_t ns, uint64_t at_end, const struct sender *sender) {
    uint32_t n = config.n_viewers, n_served = config.audio_every != 0 ? 2 * n : n;
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t viewer = 0; viewer < n; viewer++) {
        if (counts[viewer] < least) least = counts[viewer];
        if (counts[viewer] > most) most = counts[viewer];
    }
    printf("{\"sent\": %lu, \"seconds\": %.6f, \"copies\": %lu, \"copies_while_sending\": %lu, "
           "\"copies_of_viewer_min\": %lu, \"copies_of_viewer_max\": %lu, \"audio_sent\": %lu, "
           "\"audio_copies\": %lu, \"refusals\": %lu, \"others\": %lu}\n",
           n_sent, (double)ns / 1e9, total_of(0, n), at_end, least, most, sender->n_audio,
           total_of(n, n_served - n), sender->n_refusals,
           total_of(n_served, VIEWERS_MAX + 1 - n_served));
}

static void run_load(void) {
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    attach_sink();
    uint8_t *ring = config.sample_every != 0 ? sample_ring() : NULL;
    uint32_t slot = 0, n = config.n_viewers, n_served = config.audio_every != 0 ? 2 * n : n;
    uint32_t n_addresses = config.watch_path != NULL ? VIEWERS_MAX : n_served;
    static struct sender sender;
    open_sender(&sender);
    /* With --start-at, waits for the common start. */
    while (clock_ns(CLOCK_MONOTONIC) < config.start_ns && !is_stopped) usleep(START_PAUSE_US);
    uint64_t start = clock_ns(CLOCK_MONOTONIC), now = start, reported = start;
    uint64_t span_ns = (uint64_t)(config.seconds * 1e9);
    while ((now = clock_ns(CLOCK_MONOTONIC)) - start < span_ns && !is_stopped &&
           sender.n_sent < config.n_packets_max) {
        uint64_t due = (uint64_t)((double)(now - start) * config.rate / 1e9) + 1;
        if (due > config.n_packets_max) due = config.n_packets_max;
        if (due > sender.n_sent) {
            uint64_t n_due = due - sender.n_sent;
            send_some(&sender, n_due < BATCH ? (uint32_t)n_due : BATCH);
        } else if (config.watch_path != NULL) {
            usleep(WATCHING_PAUSE_US); /* may run for hours, so it leaves the processor to others */
        }
        /* For the same reason it does not catch up after a time in which it did not run. */
        if (config.watch_path != NULL && due > sender.n_sent + WATCHING_BEHIND_MAX)
            start += (uint64_t)((double)(due - sender.n_sent - WATCHING_BEHIND_MAX) * 1e9 / config.rate);
        if (ring != NULL) read_samples(ring, &slot);
        if (config.watch_path != NULL && now - reported >= REPORT_NS) {
            report_progress(&sender);
            reported = now;
        }
    }
    uint64_t at_end = total_of(0, n_served);
    wait_until_quiet(n_addresses, QUIET_NS, ring, &slot);
    write_samples();
    write_watched();
    report(sender.n_sent - sender.n_audio, now - start, at_end, &sender);
}

static void sleep_ns(uint64_t ns) {
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    nanosleep(&time, NULL);
}

/* Sends the frames of --frames, from a thread that stays in the kernel. */
static void run_given(void) {
    struct sigaction interrupt = {.sa_handler = stop}, action = {.sa_handler = wake};
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGUSR1, &action, NULL);
    attach_sink();
    struct given given = read_frames();
    load_frames_program(&given);
    volatile struct sending *sending = given.sending;
    pthread_t thread;
    if ((errno = pthread_create(&thread, NULL, send_given, &given)) != 0) fail("start a thread");
    while (sending->start_ns == 0) sleep_ns(WAIT_NS);
    uint64_t end = sending->start_ns + (uint64_t)(config.seconds * 1e9), now;
    while ((now = clock_ns(CLOCK_MONOTONIC)) < end && !is_stopped)
        sleep_ns(end - now > WAIT_NS ? end - now : WAIT_NS);
    sending->is_over = 1;
    uint64_t at_end = total_of(0, config.n_viewers), started = sending->start_ns;
    now = clock_ns(CLOCK_MONOTONIC);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    wait_until_quiet(config.n_viewers, GIVEN_QUIET_NS, NULL, NULL);
    static const struct sender none;
    report(sending->n_sent, now - started, at_end, &none);
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
    "            --sfu-mac MAC --host-mac MAC [--frame-len BYTES] [--packets N]\n"
    "            [--sample-every N --samples FILE] [--audio-every N --audio-port PORT]\n"
    "            [--watch FILE] [--xdp-sink] [--refused-are-lost] [--start-at NS] [--no-sink]\n"
    "       load --frames FILE --sink NAME --interface NAME --rate PACKETS_PER_SECOND --seconds S\n"
    "            --viewers N --first-viewer ADDRESS:PORT\n"
    "       load --push afpacket|afxdp --interface NAME --seconds S --sfu ... --host ...\n";

static void parse(int argc, char **argv) {
    static const struct option options[] = {
        {"interface", 1, NULL, 'i'},    {"rate", 1, NULL, 'r'},     {"seconds", 1, NULL, 't'},
        {"viewers", 1, NULL, 'n'},      {"sfu", 1, NULL, 's'},      {"host", 1, NULL, 'h'},
        {"first-viewer", 1, NULL, 'v'}, {"sfu-mac", 1, NULL, 'm'},  {"host-mac", 1, NULL, 'x'},
        {"frame-len", 1, NULL, 'l'},    {"sample-every", 1, NULL, 'e'},
        {"samples", 1, NULL, 'f'},      {"push", 1, NULL, 'p'},
        {"packets", 1, NULL, 'k'},      {"watch", 1, NULL, 'w'},
        {"audio-every", 1, NULL, 'a'},  {"audio-port", 1, NULL, 'u'},
        {"frames", 1, NULL, 'g'},       {"sink", 1, NULL, 'c'},
        {"refused-are-lost", 0, NULL, 'o'}, {"xdp-sink", 0, NULL, 'd'},
        {"start-at", 1, NULL, 'b'},     {"no-sink", 0, NULL, 'q'},
        {NULL, 0, NULL, 0},
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
        case 'k': config.n_packets_max = strtoull(optarg, NULL, 10); break;
        case 'd': config.is_sink_xdp = true; break;
        case 'o': config.refused_are_lost = true; break;
        case 'b': config.start_ns = strtoull(optarg, NULL, 10); break;
        case 'q': config.has_no_sink = true; break;
        case 'w': config.watch_path = optarg; break;
        case 'g': config.frames_path = optarg; break;
        case 'c': config.sink_interface = optarg; break;
        case 'a': config.audio_every = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'u': config.audio_port = htons((uint16_t)strtoul(optarg, NULL, 10)); break;
        default: fputs(usage, stderr); exit(2);
        }
    }
    size_t payload_bytes = sizeof(struct mark) +
                           (config.watch_path != NULL ? sizeof(struct stamp) : 0);
    if (config.sink_interface == NULL) config.sink_interface = config.interface;
    bool makes_frames = config.frames_path == NULL, needs_marks = config.watch_path != NULL ||
                        config.sample_every != 0 || config.audio_every != 0;
    bool is_sound = config.interface != NULL && (config.push != NULL || config.rate > 0) &&
                    config.seconds > 0 && config.seconds <= SECONDS_MAX &&
                    config.n_viewers >= 1 && config.n_viewers <= VIEWERS_MAX / 2 &&
                    config.frame_len <= FRAME_BYTES_MAX &&
                    config.frame_len >= HEADER_BYTES + payload_bytes &&
                    (makes_frames ? config.sfu_ip != 0 && config.host_ip != 0 : !needs_marks) &&
                    (config.audio_every == 0) == (config.audio_port == 0);
    if (!is_sound) {
        fputs(usage, stderr);
        exit(2);
    }
}

int main(int argc, char **argv) {
    parse(argc, argv);
    if (config.push != NULL) run_push();
    else if (config.frames_path != NULL) run_given();
    else run_load();
    return 0;
}
