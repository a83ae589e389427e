/* Measures an SFU: sends streams into its ports, receives every copy that comes back, and records
 * when.
 *
 *   meter --plan FILE --participants FIRST_ADDRESS:N --samples FILE --slots FILE [options]
 *   meter --empty-loop SECONDS
 *
 * The plan has a line for each link and stream (numbers in decimal, links before streams):
 *
 *   link INTERFACE HOST_MAC SFU_MAC PARTICIPANT    PARTICIPANT 0: a copy's address says whose it is
 *   stream LINK SOURCE:PORT SFU:PORT VIEWERS steady START_NS INTERVAL_NS PACKETS FRAME_BYTES
 *   stream LINK SOURCE:PORT SFU:PORT VIEWERS trace START_NS PACKETS FILE
 *
 * LINK counts links from 0. A trace's file has lines of "TIME_NS FRAME_BYTES", in order.
 * FRAME_BYTES are without FCS. The payload is an RTP header (RFC 3550), a mark that identifies the
 * packet, and padding. A shorter frame has only a mark of two bytes: 5 bits for the stream and 11
 * bits for the sequence, enough for the published conference of 12 hosts with two streams each for
 * one minute.
 *
 * A small BPF program at each interface (TCX) counts copies and drops them before the kernel
 * processes them. For each stream and participant it counts copies, duplicates and copies out of
 * order, of all packets. If this process may not load BPF programs (it is not root), it counts the
 * copies itself, provided that every packet is a sample; frames that are not copies are then not
 * counted. Every n-th packet of a stream is a sample: all of its copies are timed, by the kernel's
 * timestamps. A packet's own time is taken right before it is handed to the interface. A copy that
 * comes 64 packets or more after its turn counts as out of order, even if it is a duplicate.
 *
 * --samples gets a line for each sampled packet, --slots one for each stream and participant. A
 * line of JSON on standard output has the totals. The meter ends when all copies have come, or
 * when none has come for --quiet seconds. */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <signal.h>
#include <time.h>

#include "wire.h"
#include "xdp.h"

#define LINKS_MAX 4096
#define STREAMS_MAX 4096
#define SHORT_SEQUENCE_BITS 11
#define SHORT_STREAMS_MAX 32
#define SHORT_SEQUENCES_MAX (1 << SHORT_SEQUENCE_BITS)
#define BATCH 32
#define RING_BYTES_OF_ALL (64u << 20)
#define RING_SLOT_BYTES 256u
/* Includes jumbo frames; the peers' own limit is in wire.h. */
#define METER_FRAME_BYTES_MAX 9014
#define RING_SLOTS_MIN 1024u
#define RING_SLOTS_MAX 65536u
#define SOCKET_BUFFER_BYTES (4 << 20)
#define SECONDS_MAX 3600
#define EMPTY_LOOPS_MAX (1u << 22)
#define RTP_BYTES 12
#define RTP_CLOCK_HZ 90000
#define RTP_SSRC 1000 /* lab.sites.RTP_SSRC */
#define TC_ACT_SHOT 2

#ifndef BPF_TCX_INGRESS /* Linux 6.6; Debian 12's headers are older. */
#define BPF_TCX_INGRESS 46
#endif

struct rtp {
    uint8_t version, type;
    uint16_t sequence;
    uint32_t timestamp, ssrc;
} __attribute__((packed));

/* Magic and sample are in network order, stream and sequence in the machine's order. */
struct mark {
    uint32_t magic;
    uint32_t sample; /* the number of the sample, from 1; 0: not a sample */
    uint32_t stream, sequence;
} __attribute__((packed));

#define LONG_PAYLOAD_BYTES (RTP_BYTES + sizeof(struct mark))
#define SHORT_PAYLOAD_BYTES 2
#define MARK_AT (HEADER_BYTES + RTP_BYTES)

struct link {
    char interface[IF_NAMESIZE];
    uint8_t host_mac[6], sfu_mac[6];
    uint32_t participant;
    int fd;
    uint8_t *ring;
    uint32_t slot;
};

struct event {
    uint64_t time_ns;
    uint32_t frame_bytes;
};

struct stream {
    uint32_t link, n_viewers, n_packets, n_sent, src_ip, dst_ip;
    uint16_t src_port, dst_port;
    uint64_t start_ns;
    double interval_ns;
    uint32_t frame_bytes;
    struct event *trace; /* NULL: steady */
};

/* What the BPF program records for a stream and a participant. `emit_count` has the offsets of
 * these fields. */
struct slot {
    uint64_t copies, duplicates, misordered, last_sequence, window;
};

/* The delays of a stream's samples at a participant. */
struct timing {
    uint64_t n, sum_ns, min_ns, max_ns, last_ns;
    double jitter_ns; /* RFC 3550, section 6.4.1 */
};

struct sample {
    uint32_t stream, sequence, frame_bytes, n_copies;
    uint64_t sent_ns, first_ns, last_ns, sum_ns;
};

static struct {
    const char *plan, *samples_path, *slots_path;
    uint32_t first_ip, n_participants, sample_every;
    double quiet_s, limit_s, empty_loop_s;
} config = {.sample_every = 1, .quiet_s = 1, .limit_s = 300};

static struct link links[LINKS_MAX];
static struct stream streams[STREAMS_MAX];
static uint32_t n_links, n_streams, n_slots;
static volatile struct slot *slots;
static uint32_t magic; /* of this run, so that late copies of an earlier run do not count */
static bool counts_here; /* without the right to load BPF, all copies are samples and are counted when read */
static struct timing *timings;
static struct sample *samples;
static uint32_t n_samples, n_samples_max, n_ring_slots;
static uint32_t short_samples[SHORT_STREAMS_MAX][SHORT_SEQUENCES_MAX];
static uint32_t padding_sums[METER_FRAME_BYTES_MAX + 1];
static uint64_t n_bytes_sent, n_refusals, n_ring_lost, n_late_max_ns;
static volatile sig_atomic_t is_stopped;

static void fail(const char *what) {
    fprintf(stderr, "meter: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void refuse(const char *expected, const char *found) {
    fprintf(stderr, "meter: %s: expected %s, found \"%s\"\n", config.plan, expected, found);
    exit(2);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void *zeroed(size_t n, size_t bytes) {
    void *memory = calloc(n ? n : 1, bytes);
    if (memory == NULL) fail("allocate memory");
    return memory;
}

/* The plan. */

static void read_trace(struct stream *stream, const char *path) {
    FILE *file = fopen(path, "r");
    if (file == NULL) fail(path);
    stream->trace = zeroed(stream->n_packets, sizeof *stream->trace);
    for (uint32_t i = 0; i < stream->n_packets; i++) {
        struct event *event = &stream->trace[i];
        if (fscanf(file, "%lu %u", &event->time_ns, &event->frame_bytes) != 2 ||
            event->frame_bytes > METER_FRAME_BYTES_MAX ||
            event->frame_bytes < HEADER_BYTES + SHORT_PAYLOAD_BYTES)
            refuse("a trace with a line \"TIME_NS FRAME_BYTES\" for each packet", path);
        if (i > 0 && event->time_ns < stream->trace[i - 1].time_ns)
            refuse("a trace in order of time", path);
    }
    fclose(file);
}

static void parse_link(const char *line) {
    char host_mac[18], sfu_mac[18];
    struct link *link = &links[n_links++];
    if (n_links > LINKS_MAX || sscanf(line, "link %15s %17s %17s %u", link->interface, host_mac,
                                      sfu_mac, &link->participant) != 4)
        refuse("\"link INTERFACE HOST_MAC SFU_MAC PARTICIPANT\"", line);
    parse_mac(host_mac, link->host_mac);
    parse_mac(sfu_mac, link->sfu_mac);
}

static void parse_stream(const char *line) {
    char source[24], sfu[24], kind[8], path[4096];
    struct stream *stream = &streams[n_streams++];
    int at = 0;
    if (n_streams > STREAMS_MAX || sscanf(line, "stream %u %23s %23s %u %7s%n", &stream->link, source,
                                          sfu, &stream->n_viewers, kind, &at) != 5 ||
        stream->link >= n_links)
        refuse("\"stream LINK SOURCE:PORT SFU:PORT VIEWERS steady|trace ...\"", line);
    parse_endpoint(source, &stream->src_ip, &stream->src_port);
    parse_endpoint(sfu, &stream->dst_ip, &stream->dst_port);
    if (strcmp(kind, "steady") == 0) {
        if (sscanf(line + at, "%lu %lf %u %u", &stream->start_ns, &stream->interval_ns,
                   &stream->n_packets, &stream->frame_bytes) != 4 ||
            stream->frame_bytes > METER_FRAME_BYTES_MAX ||
            stream->frame_bytes < HEADER_BYTES + SHORT_PAYLOAD_BYTES)
            refuse("\"steady START_NS INTERVAL_NS PACKETS FRAME_BYTES\", 44 to 9014 bytes", line + at);
    } else if (strcmp(kind, "trace") == 0) {
        if (sscanf(line + at, "%lu %u %4095[^\n]", &stream->start_ns, &stream->n_packets, path) != 3)
            refuse("\"trace START_NS PACKETS FILE\"", line + at);
        read_trace(stream, path);
    } else {
        refuse("steady or trace", kind);
    }
}

static void read_plan(void) {
    static char line[8192];
    FILE *file = fopen(config.plan, "r");
    if (file == NULL) fail(config.plan);
    while (fgets(line, sizeof line, file) != NULL) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "link ", 5) == 0) parse_link(line);
        else if (strncmp(line, "stream ", 7) == 0) parse_stream(line);
        else refuse("a line that begins with link or stream", line);
    }
    fclose(file);
    if (n_links == 0 || n_streams == 0) refuse("links and streams", "none");
    n_slots = n_streams * config.n_participants;
}

static uint32_t frame_bytes_of(const struct stream *stream, uint32_t sequence) {
    return stream->trace ? stream->trace[sequence].frame_bytes : stream->frame_bytes;
}

static uint64_t due_of(const struct stream *stream, uint32_t sequence) {
    if (stream->trace) return stream->start_ns + stream->trace[sequence].time_ns;
    return stream->start_ns + (uint64_t)((double)sequence * stream->interval_ns);
}

static bool has_long_mark(uint32_t frame_bytes) {
    return frame_bytes >= HEADER_BYTES + LONG_PAYLOAD_BYTES;
}

static void check_plan(void) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_streams; i++) {
        struct stream *stream = &streams[i];
        n += stream->n_packets / config.sample_every + 1;
        /* All packets of a steady stream are like its last one. */
        uint32_t first = stream->trace || stream->n_packets == 0 ? 0 : stream->n_packets - 1;
        for (uint32_t sequence = first; sequence < stream->n_packets; sequence++) {
            bool fits = has_long_mark(frame_bytes_of(stream, sequence)) ||
                        (i < SHORT_STREAMS_MAX && sequence < SHORT_SEQUENCES_MAX &&
                         config.sample_every == 1);
            if (!fits)
                refuse("frames below 70 bytes only of 32 streams, 2,048 packets each, all sampled",
                       "more");
        }
    }
    n_samples_max = (uint32_t)n;
    samples = zeroed(n + 1, sizeof *samples);
    timings = zeroed(n_slots, sizeof *timings);
}

/* The sink: a BPF program, which is assembled here with labels for its jumps. */

enum label { OTHERS, SHORT_MARK, HAVE_MARK, NOT_FIRST, FORWARD, FAR_FORWARD, STORE_WINDOW,
             MISORDERED, DUPLICATE, ADD_ONE, END, N_LABELS };

#define INSNS_MAX 128
static struct bpf_insn insns[INSNS_MAX];
static uint32_t n_insns;
static uint32_t label_at[N_LABELS];
static struct { uint32_t at; enum label to; } jumps[INSNS_MAX];
static uint32_t n_jumps;

static void emit(struct bpf_insn insn) { insns[n_insns++] = insn; }

static void jump(uint8_t code, uint8_t dst, uint8_t src, int32_t imm, enum label to) {
    jumps[n_jumps].at = n_insns;
    jumps[n_jumps++].to = to;
    emit((struct bpf_insn){.code = code, .dst_reg = dst, .src_reg = src, .imm = imm});
}

static void place(enum label label) { label_at[label] = n_insns; }

static void resolve(void) {
    for (uint32_t i = 0; i < n_jumps; i++)
        insns[jumps[i].at].off = (int16_t)(label_at[jumps[i].to] - jumps[i].at - 1);
}

#define LOAD(size, to, from, at) \
    emit((struct bpf_insn){.code = BPF_LDX | BPF_MEM | (size), .dst_reg = (to), .src_reg = (from), .off = (at)})
#define STORE(size, to, at, from) \
    emit((struct bpf_insn){.code = BPF_STX | BPF_MEM | (size), .dst_reg = (to), .src_reg = (from), .off = (at)})
#define OP(op, to, from) \
    emit((struct bpf_insn){.code = BPF_ALU64 | (op) | BPF_X, .dst_reg = (to), .src_reg = (from)})
#define OP_VALUE(op, to, value) \
    emit((struct bpf_insn){.code = BPF_ALU64 | (op) | BPF_K, .dst_reg = (to), .imm = (int32_t)(value)})
#define OP32_VALUE(op, to, value) \
    emit((struct bpf_insn){.code = BPF_ALU | (op) | BPF_K, .dst_reg = (to), .imm = (int32_t)(value)})
#define FROM_BE(to, bits) \
    emit((struct bpf_insn){.code = BPF_ALU | BPF_END | BPF_TO_BE, .dst_reg = (to), .imm = (bits)})
#define JUMP_IF(how, a, b, label) jump(BPF_JMP | (how) | BPF_X, a, b, 0, label)
#define JUMP_IF_VALUE(how, a, value, label) jump(BPF_JMP | (how) | BPF_K, a, 0, (int32_t)(value), label)
#define JUMP(label) jump(BPF_JMP | BPF_JA, 0, 0, 0, label)

/* Leaves the stream in r1 and the sequence in r9. */
static void emit_mark(void) {
    /* A long frame from a packet socket lies in pages, and this call makes its beginning
     * readable. For a short frame the call fails, but a short frame is readable anyway. */
    OP(BPF_MOV, 6, 1);
    OP_VALUE(BPF_MOV, 2, HEADER_BYTES + LONG_PAYLOAD_BYTES);
    emit((struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_skb_pull_data});
    LOAD(BPF_W, 7, 6, 76); /* data */
    LOAD(BPF_W, 8, 6, 80); /* data_end */
    OP(BPF_MOV, 4, 7);
    OP_VALUE(BPF_ADD, 4, HEADER_BYTES + SHORT_PAYLOAD_BYTES);
    JUMP_IF(BPF_JGT, 4, 8, OTHERS);
    LOAD(BPF_H, 2, 7, 12);
    JUMP_IF_VALUE(BPF_JNE, 2, htons(ETH_P_IP), OTHERS);
    LOAD(BPF_B, 2, 7, 23);
    JUMP_IF_VALUE(BPF_JNE, 2, IPPROTO_UDP, OTHERS);
    LOAD(BPF_H, 2, 7, 38);
    FROM_BE(2, 16);
    OP_VALUE(BPF_MOV, 3, UDP_BYTES + LONG_PAYLOAD_BYTES);
    JUMP_IF(BPF_JGT, 3, 2, SHORT_MARK);
    OP(BPF_MOV, 4, 7);
    OP_VALUE(BPF_ADD, 4, HEADER_BYTES + LONG_PAYLOAD_BYTES);
    JUMP_IF(BPF_JGT, 4, 8, OTHERS);
    LOAD(BPF_W, 3, 7, MARK_AT);
    JUMP_IF_VALUE(BPF_JNE, 3, htonl(magic), OTHERS);
    LOAD(BPF_W, 1, 7, MARK_AT + 8);
    LOAD(BPF_W, 9, 7, MARK_AT + 12);
    JUMP(HAVE_MARK);
    place(SHORT_MARK);
    LOAD(BPF_H, 1, 7, HEADER_BYTES);
    FROM_BE(1, 16);
    OP(BPF_MOV, 9, 1);
    OP_VALUE(BPF_RSH, 1, SHORT_SEQUENCE_BITS);
    OP_VALUE(BPF_AND, 9, SHORT_SEQUENCES_MAX - 1);
    place(HAVE_MARK);
}

/* Leaves the address of the slot in r0. */
static void emit_slot(const struct link *link, int map) {
    if (link->participant != 0) {
        OP_VALUE(BPF_MOV, 2, link->participant - 1);
    } else {
        LOAD(BPF_W, 2, 7, 30); /* dst_ip */
        FROM_BE(2, 32);
        OP32_VALUE(BPF_SUB, 2, ntohl(config.first_ip));
    }
    OP_VALUE(BPF_MOV, 3, config.n_participants);
    JUMP_IF(BPF_JGE, 2, 3, OTHERS);
    OP_VALUE(BPF_MOV, 4, n_streams);
    JUMP_IF(BPF_JGE, 1, 4, OTHERS);
    OP(BPF_MUL, 1, 3);
    OP(BPF_ADD, 1, 2);
    STORE(BPF_W, 10, -4, 1);
    emit((struct bpf_insn){.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1,
                           .src_reg = BPF_PSEUDO_MAP_FD, .imm = map});
    emit((struct bpf_insn){0});
    OP(BPF_MOV, 2, 10);
    OP_VALUE(BPF_ADD, 2, -4);
    emit((struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem});
    JUMP_IF_VALUE(BPF_JEQ, 0, 0, END);
}

/* Counts a copy. `window` has a bit for the newest sequence that came, and one for each of the
 * 63 before it. */
static void emit_count(void) {
    OP_VALUE(BPF_MOV, 6, 1);
    LOAD(BPF_DW, 2, 0, 0);
    OP_VALUE(BPF_ADD, 2, 1);
    STORE(BPF_DW, 0, 0, 2);
    JUMP_IF_VALUE(BPF_JNE, 2, 1, NOT_FIRST);
    STORE(BPF_DW, 0, 24, 9);
    STORE(BPF_DW, 0, 32, 6);
    JUMP(END);
    place(NOT_FIRST);
    LOAD(BPF_DW, 3, 0, 24);
    LOAD(BPF_DW, 5, 0, 32);
    JUMP_IF(BPF_JGT, 9, 3, FORWARD);
    OP(BPF_SUB, 3, 9);
    JUMP_IF_VALUE(BPF_JGT, 3, 63, MISORDERED);
    OP(BPF_MOV, 4, 5);
    OP(BPF_RSH, 4, 3);
    OP_VALUE(BPF_AND, 4, 1);
    JUMP_IF_VALUE(BPF_JNE, 4, 0, DUPLICATE);
    OP(BPF_LSH, 6, 3);
    OP(BPF_OR, 5, 6);
    STORE(BPF_DW, 0, 32, 5);
    JUMP(MISORDERED);
    place(FORWARD);
    STORE(BPF_DW, 0, 24, 9);
    OP(BPF_MOV, 4, 9);
    OP(BPF_SUB, 4, 3);
    JUMP_IF_VALUE(BPF_JGT, 4, 63, FAR_FORWARD);
    OP(BPF_LSH, 5, 4);
    JUMP(STORE_WINDOW);
    place(FAR_FORWARD);
    OP_VALUE(BPF_MOV, 5, 0);
    place(STORE_WINDOW);
    OP_VALUE(BPF_OR, 5, 1);
    STORE(BPF_DW, 0, 32, 5);
    JUMP(END);
    place(DUPLICATE);
    OP_VALUE(BPF_ADD, 0, 8);
    JUMP(ADD_ONE);
    place(MISORDERED);
    OP_VALUE(BPF_ADD, 0, 16);
    place(ADD_ONE);
    LOAD(BPF_DW, 2, 0, 0);
    OP_VALUE(BPF_ADD, 2, 1);
    STORE(BPF_DW, 0, 0, 2);
    JUMP(END);
}

/* Counts frames that are not copies, in the last slot. */
static void emit_others(int map) {
    place(OTHERS);
    OP_VALUE(BPF_MOV, 1, n_slots);
    STORE(BPF_W, 10, -4, 1);
    emit((struct bpf_insn){.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1,
                           .src_reg = BPF_PSEUDO_MAP_FD, .imm = map});
    emit((struct bpf_insn){0});
    OP(BPF_MOV, 2, 10);
    OP_VALUE(BPF_ADD, 2, -4);
    emit((struct bpf_insn){.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_map_lookup_elem});
    JUMP_IF_VALUE(BPF_JEQ, 0, 0, END);
    JUMP(ADD_ONE);
    place(END);
    OP_VALUE(BPF_MOV, 0, TC_ACT_SHOT);
    emit((struct bpf_insn){.code = BPF_JMP | BPF_EXIT});
}

/* Called after bpf() failed. Returns whether this process can count the copies itself instead. */
static bool count_here(void) {
    counts_here = errno == EPERM && config.sample_every == 1;
    if (counts_here) slots = zeroed(n_slots + 1, sizeof *slots);
    return counts_here;
}

static int slots_map(void) {
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4,
                           .value_size = sizeof(struct slot), .max_entries = n_slots + 1,
                           .map_flags = BPF_F_MMAPABLE};
    int map = bpf(BPF_MAP_CREATE, &attr);
    if (map < 0 && count_here()) return map;
    if (map < 0) fail("create the sink's map");
    size_t bytes = ((n_slots + 1) * sizeof(struct slot) + 4095) / 4096 * 4096;
    slots = mmap(NULL, bytes, PROT_READ, MAP_SHARED, map, 0);
    if (slots == MAP_FAILED) fail("map the sink's map");
    return map;
}

static void attach_sink(const struct link *link, int map) {
    n_insns = n_jumps = 0;
    emit_mark();
    emit_slot(link, map);
    emit_count();
    emit_others(map);
    resolve();
    static char log[65536];
    union bpf_attr attr = {.prog_type = BPF_PROG_TYPE_SCHED_CLS, .insns = (uintptr_t)insns,
                           .insn_cnt = n_insns, .license = (uintptr_t) "GPL",
                           .log_buf = (uintptr_t)log, .log_size = sizeof log, .log_level = 1};
    int loaded = bpf(BPF_PROG_LOAD, &attr);
    if (loaded < 0 && count_here()) return;
    if (loaded < 0) {
        fputs(log, stderr);
        fail("load the sink's program");
    }
    memset(&attr, 0, sizeof attr);
    attr.link_create.prog_fd = (uint32_t)loaded;
    attr.link_create.target_ifindex = if_nametoindex(link->interface);
    attr.link_create.attach_type = (uint32_t)BPF_TCX_INGRESS;
    if (bpf(BPF_LINK_CREATE, &attr) < 0) fail("attach the sink's program");
    close(loaded);
}

/* Each link has a socket that sends, and a ring that receives samples. */

static int packet_socket(const struct link *link, uint16_t protocol, int fd) {
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons(protocol),
                                  .sll_ifindex = (int)if_nametoindex(link->interface)};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail(link->interface);
    return fd;
}

static int raw_socket(void) {
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0) fail("open a packet socket");
    return fd;
}

/* Opens a link's ring. A classic BPF filter looks at the mark, so that the ring gets only
 * samples. */
static void open_ring(struct link *link) {
    int fd = raw_socket();
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 9),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 7),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 38),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, UDP_BYTES + LONG_PAYLOAD_BYTES, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, MARK_AT),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, magic, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, MARK_AT + 4),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, 96),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof code[0], .filter = code};
    int version = TPACKET_V2, on = 1;
    struct tpacket_req request = {.tp_block_size = 65536, .tp_frame_size = RING_SLOT_BYTES,
                                  .tp_block_nr = n_ring_slots / (65536 / RING_SLOT_BYTES),
                                  .tp_frame_nr = n_ring_slots};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0 ||
        setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0)
        fail("set up the ring of samples");
    link->ring = mmap(NULL, (size_t)n_ring_slots * RING_SLOT_BYTES, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, fd, 0);
    if (link->ring == MAP_FAILED) fail("map the ring of samples");
    link->fd = packet_socket(link, ETH_P_ALL, fd);
}

static uint32_t sample_number(const uint8_t *frame) {
    const struct header *header = (const struct header *)frame;
    if (ntohs(header->udp_len) >= UDP_BYTES + LONG_PAYLOAD_BYTES) {
        struct mark mark;
        memcpy(&mark, frame + MARK_AT, sizeof mark);
        return ntohl(mark.sample);
    }
    uint16_t mark;
    memcpy(&mark, frame + HEADER_BYTES, sizeof mark);
    return short_samples[ntohs(mark) >> SHORT_SEQUENCE_BITS][ntohs(mark) & (SHORT_SEQUENCES_MAX - 1)];
}

/* Counts a copy in the same way as the BPF program. */
static void count_copy(volatile struct slot *slot, uint64_t sequence) {
    if (slot->copies++ == 0) {
        slot->last_sequence = sequence;
        slot->window = 1;
    } else if (sequence > slot->last_sequence) {
        uint64_t ahead = sequence - slot->last_sequence;
        slot->window = (ahead < 64 ? slot->window << ahead : 0) | 1;
        slot->last_sequence = sequence;
    } else {
        uint64_t behind = slot->last_sequence - sequence;
        bool is_duplicate = behind < 64 && (slot->window >> behind & 1) != 0;
        if (is_duplicate) slot->duplicates++;
        else slot->misordered++;
        if (behind < 64) slot->window |= 1ull << behind;
    }
}

static void take_copy(const struct link *link, const uint8_t *frame, uint64_t at_ns) {
    uint32_t number = sample_number(frame);
    uint32_t participant = link->participant - 1;
    if (link->participant == 0)
        participant = ntohl(((const struct header *)frame)->dst_ip) - ntohl(config.first_ip);
    if (number == 0 || number > n_samples || participant >= config.n_participants) {
        if (counts_here) slots[n_slots].copies++;
        return;
    }
    struct sample *sample = &samples[number];
    uint64_t delay_ns = at_ns > sample->sent_ns ? at_ns - sample->sent_ns : 0;
    if (sample->n_copies++ == 0) sample->first_ns = delay_ns;
    sample->last_ns = delay_ns;
    sample->sum_ns += delay_ns;
    uint32_t of = sample->stream * config.n_participants + participant;
    if (counts_here) count_copy(&slots[of], sample->sequence);
    struct timing *timing = &timings[of];
    if (timing->n++ > 0) {
        double moved_ns = (double)delay_ns - (double)timing->last_ns;
        timing->jitter_ns += ((moved_ns < 0 ? -moved_ns : moved_ns) - timing->jitter_ns) / 16;
    }
    timing->last_ns = delay_ns;
    timing->sum_ns += delay_ns;
    if (timing->n == 1 || delay_ns < timing->min_ns) timing->min_ns = delay_ns;
    if (delay_ns > timing->max_ns) timing->max_ns = delay_ns;
}

static void read_ring(struct link *link) {
    for (;;) {
        struct tpacket2_hdr *info = (void *)(link->ring + (size_t)link->slot * RING_SLOT_BYTES);
        _Atomic uint32_t *status = (_Atomic uint32_t *)&info->tp_status;
        if (!(atomic_load_explicit(status, memory_order_acquire) & TP_STATUS_USER)) return;
        uint64_t at_ns = (uint64_t)info->tp_sec * 1000000000u + info->tp_nsec;
        take_copy(link, (uint8_t *)info + info->tp_mac, at_ns);
        atomic_store_explicit(status, TP_STATUS_KERNEL, memory_order_release);
        link->slot = (link->slot + 1) % n_ring_slots;
    }
}

static void read_rings(void) {
    for (uint32_t i = 0; i < n_links; i++) read_ring(&links[i]);
}

/* Sending. */

struct sender {
    uint8_t frames[BATCH][METER_FRAME_BYTES_MAX];
    struct iovec parts[BATCH];
    struct mmsghdr messages[BATCH];
    uint32_t links[BATCH];
    uint32_t n;
};

static int *send_fds;

/* A padding byte depends only on its place, so the padding's checksum up to any length is
 * computed beforehand. */
static void sum_padding(void) {
    for (uint32_t at = 0; at + 1 <= METER_FRAME_BYTES_MAX; at += 2) {
        uint16_t word = htons((uint16_t)((uint8_t)(at * 31) << 8 | (uint8_t)((at + 1) * 31)));
        padding_sums[at + 2 <= METER_FRAME_BYTES_MAX ? at + 2 : at + 1] = padding_sums[at] + word;
    }
}

static uint32_t sum_of(const void *data, uint32_t n_bytes) {
    const uint8_t *bytes = data;
    uint32_t sum = 0;
    for (uint32_t at = 0; at + 1 < n_bytes; at += 2) {
        uint16_t word;
        memcpy(&word, bytes + at, 2);
        sum += word;
    }
    if (n_bytes % 2 != 0) sum += htons((uint16_t)(bytes[n_bytes - 1] << 8));
    return sum;
}

static uint16_t checksum_of(const struct header *header, const uint8_t *payload, uint32_t n_bytes) {
    uint32_t sum = words_of_u32(header->src_ip) + words_of_u32(header->dst_ip) +
                   htons(header->protocol) + header->udp_len + header->udp_len + header->src_port +
                   header->dst_port;
    if (n_bytes < LONG_PAYLOAD_BYTES) {
        sum += sum_of(payload, n_bytes);
    } else {
        uint32_t even = n_bytes & ~1u;
        sum += sum_of(payload, LONG_PAYLOAD_BYTES);
        sum += padding_sums[HEADER_BYTES + even] - padding_sums[HEADER_BYTES + LONG_PAYLOAD_BYTES];
        if (even != n_bytes) sum += htons((uint16_t)(payload[n_bytes - 1] << 8));
    }
    uint16_t checksum = (uint16_t)~fold(sum);
    return checksum == 0 ? 0xffff : checksum;
}

static uint32_t new_sample(uint32_t stream, uint32_t sequence, uint32_t frame_bytes) {
    if (sequence % config.sample_every != 0 || n_samples == n_samples_max) return 0;
    samples[++n_samples] =
        (struct sample){.stream = stream, .sequence = sequence, .frame_bytes = frame_bytes};
    return n_samples;
}

static void write_payload(uint8_t *payload, uint32_t n_bytes, uint32_t idx, uint32_t sequence,
                          uint32_t sample, uint64_t now_ns) {
    if (n_bytes < LONG_PAYLOAD_BYTES) {
        uint16_t mark = htons((uint16_t)(idx << SHORT_SEQUENCE_BITS | sequence));
        memcpy(payload, &mark, sizeof mark);
        memset(payload + sizeof mark, 'x', n_bytes - sizeof mark);
        short_samples[idx][sequence] = sample;
        return;
    }
    struct rtp rtp = {.version = 0x80, .type = 96, .sequence = htons((uint16_t)sequence),
                      .timestamp = htonl((uint32_t)(now_ns / 1000 * RTP_CLOCK_HZ / 1000000)),
                      .ssrc = htonl(RTP_SSRC)};
    struct mark mark = {htonl(magic), htonl(sample), idx, sequence};
    memcpy(payload, &rtp, sizeof rtp);
    memcpy(payload + sizeof rtp, &mark, sizeof mark);
}

static void put(struct sender *sender, uint32_t idx, uint32_t sequence, uint64_t now_ns) {
    struct stream *stream = &streams[idx];
    const struct link *link = &links[stream->link];
    uint32_t len = frame_bytes_of(stream, sequence), i = sender->n++;
    uint8_t *frame = sender->frames[i];
    struct header *header = (struct header *)frame;
    memcpy(header->dst_mac, link->sfu_mac, 6);
    memcpy(header->src_mac, link->host_mac, 6);
    header->ether_type = htons(ETH_P_IP);
    header->version_ihl = 0x45;
    header->tos = 0;
    header->total_len = htons((uint16_t)(len - ETHERNET_BYTES));
    header->id = header->fragment = 0;
    header->ttl = 64;
    header->protocol = IPPROTO_UDP;
    header->src_ip = stream->src_ip;
    header->dst_ip = stream->dst_ip;
    header->src_port = stream->src_port;
    header->dst_port = stream->dst_port;
    header->udp_len = htons((uint16_t)(len - ETHERNET_BYTES - IPV4_BYTES));
    header->ip_checksum = 0;
    header->ip_checksum = ip_checksum_of(header);
    uint32_t sample = new_sample(idx, sequence, len);
    write_payload(frame + HEADER_BYTES, len - HEADER_BYTES, idx, sequence, sample, now_ns);
    header->udp_checksum = checksum_of(header, frame + HEADER_BYTES, len - HEADER_BYTES);
    sender->parts[i] = (struct iovec){frame, len};
    sender->links[i] = stream->link;
    n_bytes_sent += len;
}

/* Samples get their time after all frames have been written, right before the call. */
static void flush(struct sender *sender, uint32_t first_sample) {
    uint64_t now_ns = clock_ns(CLOCK_REALTIME);
    for (uint32_t number = first_sample; number <= n_samples; number++)
        samples[number].sent_ns = now_ns;
    for (uint32_t done = 0; done < sender->n && !is_stopped;) {
        uint32_t link = sender->links[done], end = done + 1;
        while (end < sender->n && sender->links[end] == link) end++;
        int sent = sendmmsg(send_fds[link], sender->messages + done, end - done, 0);
        if (sent > 0) done += (uint32_t)sent;
        else if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) n_refusals++;
        else fail("send");
    }
    sender->n = 0;
}

static void open_sender(struct sender *sender) {
    sum_padding();
    send_fds = zeroed(n_links, sizeof *send_fds);
    for (uint32_t i = 0; i < n_links; i++) {
        int fd = raw_socket(), size = SOCKET_BUFFER_BYTES, on = 1;
        setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
        setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
        send_fds[i] = packet_socket(&links[i], 0, fd);
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        for (uint32_t at = HEADER_BYTES; at < METER_FRAME_BYTES_MAX; at++)
            sender->frames[i][at] = (uint8_t)(at * 31);
        sender->messages[i].msg_hdr.msg_iov = &sender->parts[i];
        sender->messages[i].msg_hdr.msg_iovlen = 1;
    }
}

/* A heap of streams, ordered by when their next packet is due. */

static uint32_t heap[STREAMS_MAX], n_heap;

static uint64_t next_due(uint32_t idx) { return due_of(&streams[idx], streams[idx].n_sent); }

static void sink_down(uint32_t at) {
    for (;;) {
        uint32_t least = at, left = 2 * at + 1;
        for (uint32_t child = left; child < left + 2 && child < n_heap; child++)
            if (next_due(heap[child]) < next_due(heap[least])) least = child;
        if (least == at) return;
        uint32_t moved = heap[at];
        heap[at] = heap[least];
        heap[least] = moved;
        at = least;
    }
}

static void make_heap(void) {
    for (uint32_t i = 0; i < n_streams; i++)
        if (streams[i].n_packets > 0) heap[n_heap++] = i;
    for (uint32_t at = n_heap; at-- > 0;) sink_down(at);
}

static uint64_t n_copies(void) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_slots; i++) n += slots[i].copies - slots[i].duplicates;
    return n;
}

static uint64_t n_copies_due(void) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < n_streams; i++) n += (uint64_t)streams[i].n_sent * streams[i].n_viewers;
    return n;
}

static void send_all(struct sender *sender, uint64_t start_ns) {
    while (n_heap > 0 && !is_stopped) {
        uint64_t now_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
        uint32_t first_sample = n_samples + 1;
        while (n_heap > 0 && sender->n < BATCH && next_due(heap[0]) <= now_ns) {
            uint32_t idx = heap[0];
            struct stream *stream = &streams[idx];
            uint64_t late_ns = now_ns - next_due(idx);
            if (late_ns > n_late_max_ns) n_late_max_ns = late_ns;
            put(sender, idx, stream->n_sent++, now_ns);
            if (stream->n_sent == stream->n_packets) heap[0] = heap[--n_heap];
            sink_down(0);
        }
        if (sender->n > 0) flush(sender, first_sample);
        read_rings();
    }
}

static void wait_for_copies(void) {
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC), quiet_since_ns = now_ns;
    uint64_t limit_ns = now_ns + (uint64_t)(config.limit_s * 1e9), before = n_copies();
    while (!is_stopped && (now_ns = clock_ns(CLOCK_MONOTONIC)) < limit_ns &&
           now_ns - quiet_since_ns < (uint64_t)(config.quiet_s * 1e9)) {
        uint64_t n = n_copies();
        if (n != before) quiet_since_ns = now_ns;
        before = n;
        read_rings();
        if (n >= n_copies_due()) break;
        usleep(200);
    }
    /* A surplus copy would come right after the others. */
    usleep(20000);
    read_rings();
}

/* The results. */

static FILE *created(const char *path) {
    FILE *file = fopen(path, "w");
    if (file == NULL) fail(path);
    return file;
}

static void finish(FILE *file, const char *path) {
    /* An earlier write may have failed, for example on a full disk. */
    bool is_whole = ferror(file) == 0;
    if (fclose(file) != 0 || !is_whole) fail(path);
}

static void write_samples(void) {
    FILE *file = created(config.samples_path);
    uint64_t zero_ns = n_samples > 0 ? samples[1].sent_ns : 0;
    fprintf(file, "stream,sequence,frame_bytes,sent_ns,copies,first_copy_ns,last_copy_ns,sum_ns\n");
    for (uint32_t number = 1; number <= n_samples; number++) {
        struct sample *sample = &samples[number];
        fprintf(file, "%u,%u,%u,%ld,%u,%lu,%lu,%lu\n", sample->stream, sample->sequence,
                sample->frame_bytes, (long)(sample->sent_ns - zero_ns), sample->n_copies,
                sample->first_ns, sample->last_ns, sample->sum_ns);
    }
    finish(file, config.samples_path);
}

static void write_slots(void) {
    FILE *file = created(config.slots_path);
    fprintf(file, "stream,participant,copies,duplicates,misordered,timed,sum_ns,min_ns,max_ns,"
                  "jitter_ns\n");
    for (uint32_t i = 0; i < n_slots; i++) {
        volatile struct slot *slot = &slots[i];
        struct timing *timing = &timings[i];
        if (slot->copies == 0) continue;
        fprintf(file, "%u,%u,%lu,%lu,%lu,%lu,%lu,%lu,%lu,%.0f\n", i / config.n_participants,
                i % config.n_participants + 1, slot->copies, slot->duplicates, slot->misordered,
                timing->n, timing->sum_ns, timing->min_ns, timing->max_ns, timing->jitter_ns);
    }
    finish(file, config.slots_path);
}

static void count_ring_losses(void) {
    for (uint32_t i = 0; i < n_links; i++) {
        struct tpacket_stats stats;
        socklen_t len = sizeof stats;
        if (getsockopt(links[i].fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len) < 0)
            fail("read the ring's statistics");
        n_ring_lost += stats.tp_drops;
    }
}

static void stop(int signal) {
    (void)signal;
    is_stopped = 1;
}

static void run(void) {
    /* BPF extends the immediate value with its sign. The last byte becomes the value's highest
     * one in network order, so its sign bit must be 0. */
    magic = (uint32_t)clock_ns(CLOCK_REALTIME) & 0xffffff7f;
    read_plan();
    check_plan();
    n_ring_slots = RING_SLOTS_MAX;
    while (n_ring_slots > RING_SLOTS_MIN &&
           (uint64_t)n_ring_slots * RING_SLOT_BYTES * n_links > RING_BYTES_OF_ALL)
        n_ring_slots /= 2;
    int map = slots_map();
    for (uint32_t i = 0; i < n_links; i++) {
        open_ring(&links[i]);
        if (!counts_here) attach_sink(&links[i], map);
    }
    static struct sender sender;
    open_sender(&sender);
    make_heap();
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
    send_all(&sender, start_ns);
    uint64_t sent_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t at_end = n_copies();
    wait_for_copies();
    count_ring_losses();
    write_samples();
    write_slots();
    uint64_t n_sent = 0;
    for (uint32_t i = 0; i < n_streams; i++) n_sent += streams[i].n_sent;
    printf("{\"sent\": %lu, \"bytes_sent\": %lu, \"sending_s\": %.9f, \"copies_due\": %lu, \"copies\": %lu, "
           "\"copies_while_sending\": %lu, \"others\": %lu, \"refusals\": %lu, "
           "\"samples_lost\": %lu, \"late_max_ns\": %lu, \"stopped\": %s, \"sent_of_streams\": [",
           n_sent, n_bytes_sent, (double)(sent_ns - start_ns) / 1e9, n_copies_due(), n_copies(), at_end,
           slots[n_slots].copies, n_refusals, n_ring_lost, n_late_max_ns,
           is_stopped ? "true" : "false");
    for (uint32_t i = 0; i < n_streams; i++) printf("%s%u", i > 0 ? ", " : "", streams[i].n_sent);
    puts("]}");
}

/* Measures the gaps between two readings of the clock with nothing between them: the time that
 * the machine takes away from a process. */

static int by_size(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static void run_empty_loop(void) {
    uint32_t *gaps = zeroed(EMPTY_LOOPS_MAX, sizeof *gaps), n = 0;
    uint64_t span_ns = (uint64_t)(config.empty_loop_s * 1e9);
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC), before_ns = start_ns;
    memset(gaps, 0xff, EMPTY_LOOPS_MAX * sizeof *gaps); /* so that no page fault comes during the loop */
    while (before_ns - start_ns < span_ns && n < EMPTY_LOOPS_MAX) {
        uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
        if (n == 0 && before_ns == start_ns) start_ns = before_ns = now_ns;
        uint64_t gap_ns = now_ns - before_ns;
        gaps[n++] = gap_ns > UINT32_MAX ? UINT32_MAX : (uint32_t)gap_ns;
        before_ns = now_ns;
    }
    qsort(gaps, n, sizeof *gaps, by_size);
    printf("{\"loops\": %u, \"seconds\": %.6f, \"p50_ns\": %u, \"p999_ns\": %u, \"max_ns\": %u}\n", n,
           (double)(before_ns - start_ns) / 1e9, gaps[n / 2], gaps[(uint64_t)n * 999 / 1000],
           gaps[n - 1]);
}

static const char usage[] =
    "usage: meter --plan FILE --participants FIRST_ADDRESS:N --samples FILE --slots FILE\n"
    "             [--sample-every N] [--quiet SECONDS] [--limit SECONDS]\n"
    "       meter --empty-loop SECONDS\n";

static void parse_participants(const char *text) {
    char address[16];
    if (sscanf(text, "%15[0-9.]:%u", address, &config.n_participants) != 2 ||
        inet_pton(AF_INET, address, &config.first_ip) != 1) {
        fprintf(stderr, "meter: --participants: expected ADDRESS:N, found \"%s\"\n", text);
        exit(2);
    }
}

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"plan", 1, NULL, 'p'},    {"participants", 1, NULL, 'n'}, {"samples", 1, NULL, 's'},
        {"slots", 1, NULL, 'o'},   {"sample-every", 1, NULL, 'e'}, {"quiet", 1, NULL, 'q'},
        {"limit", 1, NULL, 'l'},   {"empty-loop", 1, NULL, 'j'},   {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'p': config.plan = optarg; break;
        case 'n': parse_participants(optarg); break;
        case 's': config.samples_path = optarg; break;
        case 'o': config.slots_path = optarg; break;
        case 'e': config.sample_every = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 'q': config.quiet_s = strtod(optarg, NULL); break;
        case 'l': config.limit_s = strtod(optarg, NULL); break;
        case 'j': config.empty_loop_s = strtod(optarg, NULL); break;
        default: fputs(usage, stderr); return 2;
        }
    }
    if (config.empty_loop_s > 0 && config.empty_loop_s <= SECONDS_MAX) {
        run_empty_loop();
        return 0;
    }
    bool is_sound = config.plan != NULL && config.samples_path != NULL && config.slots_path != NULL &&
                    config.n_participants > 0 && config.sample_every > 0 && config.quiet_s > 0 &&
                    config.limit_s > 0 && config.limit_s <= SECONDS_MAX;
    if (!is_sound) {
        fputs(usage, stderr);
        return 2;
    }
    run();
    return 0;
}
