/* A relay by hand: every UDP packet to the SFU's address leaves once for each viewer, rewritten.
 * The peer that the switch is measured against. It runs no P4 and does by hand what the SFU
 * programs do: MAC addresses, TTL, addresses and ports, both checksums by RFC 1624.
 *
 *   --io udp       recvmmsg and sendmmsg on an ordinary socket; the kernel makes the headers
 *   --io afpacket  TPACKET_V2 ring in, sendmmsg past the queueing discipline out; a copy is a
 *                  header of its own and the payload in the ring, so nothing is copied here
 *   --io afxdp     one AF_XDP socket; a copy is copied once, into its frame
 *
 * Says "ready" when it listens, runs until SIGTERM, then prints what it has seen as JSON. */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <time.h>

#include "wire.h"
#include "xdp.h"

#define VIEWERS_MAX 4096
#define BATCH 64
#define RING_SLOTS 4096
#define RING_SLOT_BYTES 2048
#define SOCKET_BUFFER_BYTES (4 << 20)

struct viewer {
    uint32_t ip;
    uint32_t words; /* of address and port, for checksums */
};

static struct {
    const char *interface;
    bool spins;
    uint8_t sfu_mac[6], next_hop_mac[6];
    uint32_t sfu_ip;
    uint16_t sfu_port, viewer_port;
    uint32_t n_viewers;
    struct viewer viewers[VIEWERS_MAX];
} config;

static volatile sig_atomic_t is_stopped;
static uint64_t n_packets, n_others, n_copies, n_refused;

static void stop(int signal) {
    (void)signal;
    is_stopped = 1;
}

static void fail(const char *what) {
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static bool is_for_us(const uint8_t *frame, uint32_t len) {
    const struct header *header = (const struct header *)frame;
    return len >= HEADER_BYTES && header->ether_type == htons(ETH_P_IP) &&
           header->version_ihl == 0x45 && header->protocol == IPPROTO_UDP &&
           header->dst_ip == config.sfu_ip && header->dst_port == config.sfu_port;
}

/* What every copy of a packet has in common; the viewer's part is added to it. */
struct rewrite {
    struct header header;
    uint16_t ip_checksum, udp_checksum;
    uint32_t removed_ip, removed_udp, added_ip, added_udp;
};

static void prepare(struct rewrite *rewrite, const uint8_t *frame) {
    struct header *header = &rewrite->header;
    memcpy(header, frame, HEADER_BYTES);
    rewrite->ip_checksum = header->ip_checksum;
    rewrite->udp_checksum = header->udp_checksum;
    rewrite->removed_ip = words_of_u32(header->src_ip) + words_of_u32(header->dst_ip);
    rewrite->removed_udp = rewrite->removed_ip + header->src_port + header->dst_port;
    rewrite->removed_ip += htons((uint16_t)(header->ttl << 8));
    memcpy(header->dst_mac, config.next_hop_mac, 6);
    memcpy(header->src_mac, config.sfu_mac, 6);
    header->ttl--;
    header->src_ip = config.sfu_ip;
    header->src_port = config.sfu_port;
    header->dst_port = config.viewer_port;
    rewrite->added_ip = words_of_u32(config.sfu_ip);
    rewrite->added_udp = rewrite->added_ip + config.sfu_port;
    rewrite->added_ip += htons((uint16_t)(header->ttl << 8));
}

static void write_copy(struct header *copy, const struct rewrite *rewrite,
                       const struct viewer *viewer) {
    *copy = rewrite->header;
    copy->dst_ip = viewer->ip;
    copy->ip_checksum = updated_checksum(rewrite->ip_checksum, rewrite->removed_ip,
                                         rewrite->added_ip + words_of_u32(viewer->ip));
    if (rewrite->udp_checksum != 0) {
        uint16_t checksum = updated_checksum(rewrite->udp_checksum, rewrite->removed_udp,
                                             rewrite->added_udp + viewer->words);
        copy->udp_checksum = checksum == 0 ? 0xffff : checksum;
    }
}

static void say_ready(void) {
    puts("ready");
    fflush(stdout);
}

static void wait_readable(int fd) {
    struct pollfd waited = {.fd = fd, .events = POLLIN};
    poll(&waited, 1, 200);
}

static void run_afxdp(void) {
    static struct xdp_socket xdp;
    xdp_open(&xdp, config.interface);
    say_ready();
    while (!is_stopped) {
        uint32_t len;
        uint8_t *frame = xdp_peek(&xdp, &len);
        if (frame == NULL) {
            if (!config.spins) wait_readable(xdp.fd);
            continue;
        }
        if (is_for_us(frame, len)) {
            struct rewrite rewrite;
            prepare(&rewrite, frame);
            for (uint32_t i = 0; i < config.n_viewers; i++) {
                uint64_t address;
                uint8_t *copy = xdp_frame(&xdp, &address);
                write_copy((struct header *)copy, &rewrite, &config.viewers[i]);
                memcpy(copy + HEADER_BYTES, frame + HEADER_BYTES, len - HEADER_BYTES);
                xdp_send(&xdp, address, len);
            }
            n_packets++;
            n_copies += config.n_viewers;
        } else {
            n_others++;
        }
        xdp_release(&xdp);
        /* Packets that wait together share their last kick. */
        if (atomic_load_explicit(xdp.rx.producer, memory_order_acquire) == xdp.rx.cached)
            xdp_kick(&xdp);
    }
}

static int packet_socket(int protocol) {
    int fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (fd < 0) fail("open a packet socket");
    int size = SOCKET_BUFFER_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    int on = 1;
    if (protocol == 0) setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    if (protocol != 0) {
        int version = TPACKET_V2;
        struct tpacket_req request = {.tp_block_size = 65536, .tp_frame_size = RING_SLOT_BYTES,
                                      .tp_block_nr = RING_SLOTS / (65536 / RING_SLOT_BYTES),
                                      .tp_frame_nr = RING_SLOTS};
        if (setsockopt(fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0 ||
            setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0 ||
            setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0)
            fail("set up the receive ring");
    }
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htons((uint16_t)protocol),
                                  .sll_ifindex = (int)if_nametoindex(config.interface)};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("bind a packet socket");
    return fd;
}

/* Sends messages from the first on; one that the kernel refuses for good is counted. */
static void send_all(int fd, struct mmsghdr *messages, uint32_t n) {
    uint32_t first = 0;
    while (first < n && !is_stopped) {
        int sent = sendmmsg(fd, messages + first, n - first, 0);
        if (sent > 0) {
            first += (uint32_t)sent;
            n_copies += (uint32_t)sent;
        } else if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS) {
            n_refused++;
            first++;
        }
    }
}

static void run_afpacket(void) {
    int rx = packet_socket(ETH_P_ALL), tx = packet_socket(0);
    uint8_t *ring = mmap(NULL, (size_t)RING_SLOTS * RING_SLOT_BYTES, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_POPULATE, rx, 0);
    if (ring == MAP_FAILED) fail("map the receive ring");
    static struct header headers[BATCH];
    static struct iovec parts[BATCH][2];
    static struct mmsghdr messages[BATCH];
    for (uint32_t i = 0; i < BATCH; i++) {
        parts[i][0] = (struct iovec){&headers[i], HEADER_BYTES};
        messages[i].msg_hdr.msg_iov = parts[i];
        messages[i].msg_hdr.msg_iovlen = 2;
    }
    say_ready();
    for (uint32_t slot = 0; !is_stopped;) {
        struct tpacket2_hdr *info = (void *)(ring + (size_t)slot * RING_SLOT_BYTES);
        _Atomic uint32_t *status = (_Atomic uint32_t *)&info->tp_status;
        if (!(atomic_load_explicit(status, memory_order_acquire) & TP_STATUS_USER)) {
            if (!config.spins) wait_readable(rx);
            continue;
        }
        uint8_t *frame = (uint8_t *)info + info->tp_mac;
        uint32_t len = info->tp_snaplen;
        if (is_for_us(frame, len)) {
            struct rewrite rewrite;
            prepare(&rewrite, frame);
            for (uint32_t viewer = 0; viewer < config.n_viewers;) {
                uint32_t n = config.n_viewers - viewer < BATCH ? config.n_viewers - viewer : BATCH;
                for (uint32_t i = 0; i < n; i++) {
                    write_copy(&headers[i], &rewrite, &config.viewers[viewer + i]);
                    parts[i][1] = (struct iovec){frame + HEADER_BYTES, len - HEADER_BYTES};
                }
                send_all(tx, messages, n);
                viewer += n;
            }
            n_packets++;
        } else {
            n_others++;
        }
        atomic_store_explicit(status, TP_STATUS_KERNEL, memory_order_release);
        slot = (slot + 1) % RING_SLOTS;
    }
}

static void run_udp(void) {
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0) fail("open a UDP socket");
    int size = SOCKET_BUFFER_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = config.sfu_port,
                                  .sin_addr.s_addr = config.sfu_ip};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("bind the UDP socket");
    static uint8_t payloads[BATCH][FRAME_BYTES_MAX];
    static struct iovec in_parts[BATCH], out_part;
    static struct mmsghdr in[BATCH], out[VIEWERS_MAX];
    static struct sockaddr_in addresses[VIEWERS_MAX];
    for (uint32_t i = 0; i < BATCH; i++) {
        in_parts[i] = (struct iovec){payloads[i], sizeof payloads[i]};
        in[i].msg_hdr.msg_iov = &in_parts[i];
        in[i].msg_hdr.msg_iovlen = 1;
    }
    for (uint32_t i = 0; i < config.n_viewers; i++) {
        addresses[i] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = config.viewer_port,
                                            .sin_addr.s_addr = config.viewers[i].ip};
        out[i].msg_hdr = (struct msghdr){.msg_name = &addresses[i], .msg_namelen = sizeof addresses[i],
                                         .msg_iov = &out_part, .msg_iovlen = 1};
    }
    say_ready();
    while (!is_stopped) {
        int n = recvmmsg(fd, in, BATCH, MSG_DONTWAIT, NULL);
        if (n <= 0) {
            if (!config.spins) wait_readable(fd);
            continue;
        }
        for (int i = 0; i < n; i++) {
            out_part = (struct iovec){payloads[i], in[i].msg_len};
            for (uint32_t viewer = 0; viewer < config.n_viewers; viewer += BATCH) {
                uint32_t left = config.n_viewers - viewer;
                send_all(fd, out + viewer, left < BATCH ? left : BATCH);
            }
            n_packets++;
        }
    }
}

static void set_viewers(const char *first) {
    uint32_t ip;
    parse_endpoint(first, &ip, &config.viewer_port);
    for (uint32_t i = 0; i < config.n_viewers; i++) {
        uint32_t own = htonl(ntohl(ip) + i);
        config.viewers[i] = (struct viewer){own, words_of_u32(own) + config.viewer_port};
    }
}

static const char usage[] =
    "usage: relay --io udp|afpacket|afxdp --wait spin|sleep --interface NAME --viewers N\n"
    "             --sfu ADDRESS:PORT --first-viewer ADDRESS:PORT --sfu-mac MAC --next-hop MAC\n"
    "Viewers have the addresses from --first-viewer on, all with the same port.\n";

int main(int argc, char **argv) {
    static const struct option options[] = {
        {"io", 1, NULL, 'o'},           {"wait", 1, NULL, 'w'},    {"interface", 1, NULL, 'i'},
        {"viewers", 1, NULL, 'n'},      {"sfu", 1, NULL, 's'},     {"first-viewer", 1, NULL, 'v'},
        {"sfu-mac", 1, NULL, 'm'},      {"next-hop", 1, NULL, 'x'}, {NULL, 0, NULL, 0},
    };
    const char *io = "", *first_viewer = NULL, *sfu = NULL, *wait = "spin";
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'o': io = optarg; break;
        case 'w': wait = optarg; break;
        case 'i': config.interface = optarg; break;
        case 'n': config.n_viewers = (uint32_t)strtoul(optarg, NULL, 10); break;
        case 's': sfu = optarg; break;
        case 'v': first_viewer = optarg; break;
        case 'm': parse_mac(optarg, config.sfu_mac); break;
        case 'x': parse_mac(optarg, config.next_hop_mac); break;
        default: fputs(usage, stderr); return 2;
        }
    }
    bool knows_wait = strcmp(wait, "spin") == 0 || strcmp(wait, "sleep") == 0;
    if (sfu == NULL || first_viewer == NULL || config.interface == NULL || !knows_wait ||
        config.n_viewers == 0 || config.n_viewers > VIEWERS_MAX) {
        fputs(usage, stderr);
        return 2;
    }
    config.spins = strcmp(wait, "spin") == 0;
    parse_endpoint(sfu, &config.sfu_ip, &config.sfu_port);
    set_viewers(first_viewer);
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    if (strcmp(io, "udp") == 0) run_udp();
    else if (strcmp(io, "afpacket") == 0) run_afpacket();
    else if (strcmp(io, "afxdp") == 0) run_afxdp();
    else {
        fputs(usage, stderr);
        return 2;
    }
    printf("{\"packets\": %lu, \"others\": %lu, \"copies\": %lu, \"refused\": %lu}\n", n_packets,
           n_others, n_copies, n_refused);
    return 0;
}
