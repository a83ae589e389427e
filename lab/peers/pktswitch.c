/* pktswitch: a selective forwarding unit as Baltas and Xylomenos (ISCC 2015) mean one. Participants
 * subscribe to streams while it runs (docs/pktswitch.md); each packet of a stream leaves once for
 * each of its viewers, payload untouched. One table and one protocol (subscriptions.h, control.h),
 * four ways to the network:
 *
 *   --io udp          recvfrom and sendto, one call a packet: the paper's sockets
 *   --io udp_batched  recvmmsg and sendmmsg
 *   --io afpacket     a TPACKET_V2 ring in, sendmmsg past the queueing discipline out
 *   --io afxdp        an AF_XDP socket a link: where the paper has netmap
 *
 * The latter two read and write whole frames and do what the kernel does for a socket: only whole,
 * sound datagrams to the SFU's addresses come in, what leaves is a datagram of its own (TTL 64).
 * Says "ready" when it listens, runs until SIGTERM, then prints what it has counted as JSON. */
#define _GNU_SOURCE
#include <getopt.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "control.h"
#include "xdp.h"

/* Packets in one call, and of one port or link before the next has its turn. */
#define BATCH 64u
#define LINKS_MAX 256u
/* Of all links together; each has some. Messages have a ring of their own: whoever wants fewer
 * packets must be heard however many there are. */
#define RING_SLOTS 4096u
#define RING_SLOTS_MIN 256u
#define MESSAGE_SLOTS 256u
#define RING_SLOT_BYTES 2048u
#define RING_BLOCK_BYTES 65536u
#define SOCKET_BUFFER_BYTES (4 << 20)
#define PAYLOAD_BYTES_MAX (FRAME_BYTES_MAX - HEADER_BYTES)
#define WAIT_MS 200
/* How often a copy is offered to a kernel that has no room just now; each packet's copies together. */
#define RETRIES_MAX 1000u
#define TTL 64

/* Of a packet socket, which fills it (TPACKET_V2). */
struct ring {
    int fd;
    uint8_t *slots;
    uint32_t n_slots, slot;
};

struct link {
    const char *name;
    uint8_t mac[6];
    int ifindex;
    struct xdp_socket *xdp;
    struct ring packets, messages;
};

struct io {
    const char *name;
    void (*open)(void);
    bool (*open_port)(uint32_t place, uint16_t udp_port);
    bool (*round)(void); /* takes what there is, at most BATCH from each; false where nothing was */
    void (*fan_out)(const struct stream *stream, const uint8_t *payload, uint32_t len);
    void (*send)(const struct viewer *to, const uint8_t *frame, uint32_t len);
    void (*count_lost)(void);
};

static const struct io *io;
static bool spins;
static uint32_t sfu_ip;
static uint16_t control_port;
static uint32_t n_links;
static struct link links[LINKS_MAX];
/* What is waited for. With sockets the first is for messages, then one for each of `ports`. */
static struct pollfd waited[2 * LINKS_MAX];
static uint32_t n_waited;

static volatile sig_atomic_t is_stopped;

static void stop(int signal) {
    (void)signal;
    is_stopped = 1;
}

static void fail(const char *what) {
    fprintf(stderr, "pktswitch: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void wait_readable(void) {
    if (poll(waited, n_waited, WAIT_MS) <= 0) return;
    for (uint32_t i = 0; i < n_waited; i++) {
        int error;
        socklen_t len = sizeof error;
        /* A link that went down is told once; else poll would not wait any more. */
        if (waited[i].revents & POLLERR) getsockopt(waited[i].fd, SOL_SOCKET, SO_ERROR, &error, &len);
    }
}

static bool is_full_for_now(void) {
    return errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == EBUSY;
}

/* What the kernel dropped is asked for only when it is wanted: it takes a call for each socket. */
static void count_lost_if_asked(const uint8_t *message, uint32_t len) {
    if (len >= sizeof(struct message) && ((const struct message *)message)->type == STATISTICS)
        io->count_lost();
}

/* Sends copies from the first on; each is counted as one that left or that the kernel refused. A
 * kernel without room is asked again, but not for ever: a link may be down. */
static void send_all(int fd, struct mmsghdr *messages, uint32_t n, uint32_t *n_retries) {
    for (uint32_t first = 0; first < n;) {
        int sent = sendmmsg(fd, messages + first, n - first, MSG_DONTWAIT);
        if (sent > 0) {
            first += (uint32_t)sent;
            count.copies += (uint32_t)sent;
        } else if (!is_full_for_now() || (*n_retries)++ >= RETRIES_MAX) {
            first++;
            count.copies_refused++;
        }
    }
}

/* ---- Sockets ---- */

static uint8_t payloads[BATCH][RING_SLOT_BYTES];
static uint64_t lost_at_closed_ports;

static uint32_t drops_of(int fd) {
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t len = sizeof info;
    getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len);
    return info[SK_MEMINFO_DROPS];
}

static int udp_socket(uint16_t udp_port) {
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    if (fd < 0) return fd;
    int size = SOCKET_BUFFER_BYTES;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = udp_port, .sin_addr.s_addr = sfu_ip};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
    return -1;
}

static void open_sockets(void) {
    int fd = udp_socket(control_port);
    if (fd < 0) fail("bind a UDP socket to the address and port of --sfu");
    waited[0] = (struct pollfd){.fd = fd, .events = POLLIN};
    for (uint32_t place = 0; place < PORTS_MAX; place++)
        waited[1 + place] = (struct pollfd){.fd = -1, .events = POLLIN};
    n_waited = 1 + PORTS_MAX;
}

static bool open_port_socket(uint32_t place, uint16_t udp_port) {
    int fd = udp_socket(udp_port), before = waited[1 + place].fd;
    if (fd < 0) return false;
    if (before >= 0) {
        lost_at_closed_ports += drops_of(before);
        close(before);
    }
    waited[1 + place].fd = fd;
    return true;
}

static void count_lost_at_sockets(void) {
    count.receive_lost = lost_at_closed_ports;
    for (uint32_t i = 0; i < n_waited; i++)
        if (waited[i].fd >= 0) count.receive_lost += drops_of(waited[i].fd);
}

/* At most BATCH messages; whether there were any. */
static bool take_messages(void) {
    uint32_t n = 0;
    for (; n < BATCH; n++) {
        struct sockaddr_in address;
        socklen_t address_len = sizeof address;
        uint8_t reply[ANSWER_BYTES_MAX];
        ssize_t len = recvfrom(waited[0].fd, payloads[0], sizeof payloads[0], MSG_DONTWAIT,
                               (struct sockaddr *)&address, &address_len);
        if (len < 0) break;
        struct viewer from = {.ip = address.sin_addr.s_addr, .udp_port = address.sin_port};
        count_lost_if_asked(payloads[0], (uint32_t)len);
        uint32_t reply_len = answer_message(payloads[0], (uint32_t)len, &from, now_s(), reply);
        if (reply_len != 0 && sendto(waited[0].fd, reply, reply_len, MSG_DONTWAIT,
                                     (struct sockaddr *)&address, address_len) < 0)
            count.answers_refused++;
    }
    return n != 0;
}

/* The stream that a datagram at a port belongs to, or NULL where it goes to nobody. */
static const struct stream *stream_at(uint32_t place, const struct sockaddr_in *from, size_t len) {
    const struct stream *stream =
        stream_slot(from->sin_addr.s_addr, from->sin_port, ports[place].udp_port);
    if (len > PAYLOAD_BYTES_MAX) count.too_long++;
    else if (stream->viewers == NULL) count.no_stream++;
    else {
        count.packets++;
        return stream;
    }
    return NULL;
}

static struct sockaddr_in address_of(const struct viewer *viewer) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = viewer->udp_port, .sin_addr.s_addr = viewer->ip};
}

static void copy_one_by_one(int fd, const struct stream *stream, const uint8_t *payload, size_t len) {
    uint32_t n_retries = 0;
    for (uint32_t i = 0; i < stream->n_viewers; i++) {
        struct sockaddr_in address = address_of(&stream->viewers[i]);
        bool sent;
        do {
            sent = sendto(fd, payload, len, MSG_DONTWAIT, (struct sockaddr *)&address,
                          sizeof address) >= 0;
        } while (!sent && is_full_for_now() && n_retries++ < RETRIES_MAX);
        ++*(sent ? &count.copies : &count.copies_refused);
    }
}

static bool round_udp(void) {
    bool was_any = false;
    for (uint32_t place = 0; place < PORTS_MAX; place++) {
        int fd = waited[1 + place].fd;
        for (uint32_t n = 0; fd >= 0 && n < BATCH; n++) {
            struct sockaddr_in from;
            socklen_t from_len = sizeof from;
            ssize_t len = recvfrom(fd, payloads[0], sizeof payloads[0], MSG_DONTWAIT | MSG_TRUNC,
                                   (struct sockaddr *)&from, &from_len);
            if (len < 0) break;
            was_any = true;
            const struct stream *stream = stream_at(place, &from, (size_t)len);
            if (stream != NULL) copy_one_by_one(fd, stream, payloads[0], (size_t)len);
        }
    }
    return take_messages() || was_any;
}

static void copy_in_batches(int fd, const struct stream *stream, uint8_t *payload, size_t len) {
    static struct sockaddr_in addresses[BATCH];
    static struct mmsghdr messages[BATCH];
    struct iovec part = {payload, len};
    uint32_t n_retries = 0;
    for (uint32_t first = 0; first < stream->n_viewers; first += BATCH) {
        uint32_t left = stream->n_viewers - first, n = left < BATCH ? left : BATCH;
        for (uint32_t i = 0; i < n; i++) {
            addresses[i] = address_of(&stream->viewers[first + i]);
            messages[i].msg_hdr = (struct msghdr){.msg_name = &addresses[i],
                                                  .msg_namelen = sizeof addresses[i],
                                                  .msg_iov = &part, .msg_iovlen = 1};
        }
        send_all(fd, messages, n, &n_retries);
    }
}

static bool round_udp_batched(void) {
    static struct sockaddr_in from[BATCH];
    static struct iovec parts[BATCH];
    static struct mmsghdr in[BATCH];
    bool was_any = false;
    for (uint32_t place = 0; place < PORTS_MAX; place++) {
        int fd = waited[1 + place].fd;
        if (fd < 0) continue;
        for (uint32_t i = 0; i < BATCH; i++) {
            parts[i] = (struct iovec){payloads[i], sizeof payloads[i]};
            in[i].msg_hdr = (struct msghdr){.msg_name = &from[i], .msg_namelen = sizeof from[i],
                                            .msg_iov = &parts[i], .msg_iovlen = 1};
        }
        int n = recvmmsg(fd, in, BATCH, MSG_DONTWAIT | MSG_TRUNC, NULL);
        was_any |= n > 0;
        for (int i = 0; i < n; i++) {
            const struct stream *stream = stream_at(place, &from[i], in[i].msg_len);
            if (stream != NULL) copy_in_batches(fd, stream, payloads[i], in[i].msg_len);
        }
    }
    return take_messages() || was_any;
}

/* ---- Frames ---- */

/* The header of the copies of one packet, without what is the viewer's. */
static struct {
    struct header header;
    uint32_t ip_sum;
    uint16_t udp_checksum;
    uint32_t removed, added;
} rewrite;

static void write_own_header(struct header *header, uint16_t udp_len, uint16_t src_port) {
    header->ether_type = htons(ETH_P_IP);
    header->version_ihl = 0x45;
    header->tos = 0;
    header->total_len = htons((uint16_t)(IPV4_BYTES + udp_len));
    header->id = 0;
    header->fragment = htons(0x4000); /* whole, and never to be cut: RFC 6864, section 4 */
    header->ttl = TTL;
    header->protocol = IPPROTO_UDP;
    header->ip_checksum = 0;
    header->src_ip = sfu_ip;
    header->src_port = src_port;
    header->udp_len = htons(udp_len);
}

static void prepare(const struct header *came) {
    struct header *header = &rewrite.header;
    *header = *came;
    header->dst_ip = 0;
    write_own_header(header, ntohs(came->udp_len), came->dst_port);
    rewrite.ip_sum = (uint16_t)~ip_checksum_of(header);
    rewrite.udp_checksum = came->udp_checksum;
    rewrite.removed = words_of_u32(came->src_ip) + words_of_u32(came->dst_ip) + came->src_port +
                      came->dst_port;
    rewrite.added = words_of_u32(sfu_ip) + came->dst_port;
}

static inline void write_copy(struct header *copy, const struct viewer *viewer) {
    *copy = rewrite.header;
    memcpy(copy, viewer->macs, sizeof viewer->macs);
    copy->dst_ip = viewer->ip;
    copy->dst_port = viewer->udp_port;
    copy->ip_checksum = (uint16_t)~fold(rewrite.ip_sum + words_of_u32(viewer->ip));
    /* RFC 768: a sum of zero is sent as all ones, zero means that the sender made none. */
    if (rewrite.udp_checksum != 0) {
        uint16_t checksum = updated_checksum(rewrite.udp_checksum, rewrite.removed,
                                             rewrite.added + viewer->words);
        copy->udp_checksum = checksum == 0 ? 0xffff : checksum;
    }
}

static bool is_host(uint32_t ip) {
    uint8_t first = (uint8_t)(ntohl(ip) >> 24);
    return first != 0 && first != 127 && first < 224 && ip != sfu_ip;
}

/* Whether a frame holds a datagram that the kernel would give to a socket of the SFU's. */
static bool is_datagram(const struct link *link, const struct header *header, uint32_t len) {
    uint64_t *dropped = NULL;
    uint16_t total_len = ntohs(header->total_len), udp_len = ntohs(header->udp_len);
    if (len < HEADER_BYTES || header->ether_type != htons(ETH_P_IP) ||
        memcmp(header->dst_mac, link->mac, 6) != 0 || header->protocol != IPPROTO_UDP ||
        header->dst_ip != sfu_ip)
        dropped = &count.not_ours;
    else if (header->version_ihl > 0x45 && header->version_ihl <= 0x4f)
        dropped = &count.ip_options;
    else if (header->version_ihl != 0x45 || total_len > len - ETHERNET_BYTES ||
             total_len < IPV4_BYTES + UDP_BYTES || ip_checksum_of(header) != 0 ||
             !is_host(header->src_ip) || (header->src_mac[0] & 1) != 0)
        dropped = &count.malformed;
    else if ((header->fragment & htons(0x3fff)) != 0)
        dropped = &count.fragments;
    else if (udp_len < UDP_BYTES || udp_len > total_len - IPV4_BYTES)
        dropped = &count.malformed;
    else if (udp_len > UDP_BYTES + PAYLOAD_BYTES_MAX)
        dropped = &count.too_long;
    if (dropped != NULL) ++*dropped;
    return dropped == NULL;
}

static void answer_frame(uint16_t link, const struct header *came) {
    /* A copy's checksum shows whether the packet's was right; a message goes no further. Over a
     * datagram whose checksum is right, the sum is zero. */
    if (came->udp_checksum != 0 && udp_checksum_of(came) != 0xffff) {
        count.malformed++;
        return;
    }
    struct viewer from = {.ip = came->src_ip,
                          .udp_port = came->src_port,
                          .words = words_of_u32(came->src_ip) + came->src_port,
                          .link = link};
    memcpy(from.macs, came->src_mac, 6);
    memcpy(from.macs + 6, links[link].mac, 6);
    struct {
        struct header header;
        uint8_t payload[ANSWER_BYTES_MAX];
    } __attribute__((packed)) reply;
    const uint8_t *message = (const uint8_t *)(came + 1);
    uint32_t message_len = ntohs(came->udp_len) - UDP_BYTES;
    count_lost_if_asked(message, message_len);
    uint32_t len = answer_message(message, message_len, &from, now_s(), reply.payload);
    if (len == 0) return;
    write_own_header(&reply.header, (uint16_t)(UDP_BYTES + len), control_port);
    memcpy(&reply.header, from.macs, sizeof from.macs);
    reply.header.dst_ip = from.ip;
    reply.header.dst_port = from.udp_port;
    reply.header.ip_checksum = ip_checksum_of(&reply.header);
    reply.header.udp_checksum = 0;
    reply.header.udp_checksum = udp_checksum_of(&reply.header);
    io->send(&from, (const uint8_t *)&reply, HEADER_BYTES + len);
}

static void take_frame(uint16_t link, const uint8_t *frame, uint32_t len) {
    const struct header *header = (const struct header *)frame;
    if (!is_datagram(&links[link], header, len)) return;
    if (header->dst_port == control_port) {
        answer_frame(link, header);
        return;
    }
    const struct stream *stream =
        stream_slot(header->src_ip, header->src_port, header->dst_port);
    if (stream->viewers == NULL) {
        count.no_stream++;
        return;
    }
    count.packets++;
    prepare(header);
    io->fan_out(stream, frame + HEADER_BYTES, ntohs(header->udp_len) - UDP_BYTES);
}

static bool has_every_port(uint32_t place, uint16_t udp_port) {
    (void)place, (void)udp_port;
    return true;
}

/* ---- Packet sockets ---- */

static void bind_to(int fd, const struct link *link, uint16_t protocol) {
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(protocol),
                                  .sll_ifindex = link->ifindex};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("bind a packet socket");
}

/* Only datagrams without options to the port for messages, or all else. */
static void attach_filter(int fd, bool is_for_messages) {
    uint32_t message = is_for_messages ? UINT32_MAX : 0, other = ~message;
    struct sock_filter code[] = {
        /* A filter that looks beyond a frame's end drops it, and nobody would count that. */
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),  BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 38, 0, 9),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 7),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 14), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0x45, 0, 5),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 3),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 36),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohs(control_port), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, message),     BPF_STMT(BPF_RET | BPF_K, other),
    };
    struct sock_fprog filter = {.len = sizeof code / sizeof code[0], .filter = code};
    if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) < 0)
        fail("attach a filter to a packet socket");
}

static void open_ring(struct ring *ring, const struct link *link, bool is_for_messages,
                      uint32_t n_slots) {
    int version = TPACKET_V2, on = 1;
    uint32_t per_block = RING_BLOCK_BYTES / RING_SLOT_BYTES;
    struct tpacket_req request = {.tp_block_size = RING_BLOCK_BYTES,
                                  .tp_frame_size = RING_SLOT_BYTES,
                                  .tp_block_nr = n_slots / per_block,
                                  .tp_frame_nr = n_slots};
    *ring = (struct ring){.fd = socket(AF_PACKET, SOCK_RAW, 0), .n_slots = n_slots};
    if (ring->fd < 0) fail("open a packet socket");
    attach_filter(ring->fd, is_for_messages);
    if (setsockopt(ring->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version) < 0 ||
        setsockopt(ring->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) < 0 ||
        setsockopt(ring->fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request) < 0)
        fail("set up a receive ring");
    ring->slots = mmap(NULL, (size_t)n_slots * RING_SLOT_BYTES, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_POPULATE, ring->fd, 0);
    if (ring->slots == MAP_FAILED) fail("map a receive ring");
    bind_to(ring->fd, link, ETH_P_ALL);
    waited[n_waited++] = (struct pollfd){.fd = ring->fd, .events = POLLIN};
}

static void count_lost_at(const struct ring *ring) {
    struct tpacket_stats stats;
    socklen_t len = sizeof stats;
    /* Reading sets them to zero. */
    if (getsockopt(ring->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &len) == 0)
        count.receive_lost += stats.tp_drops;
}

static void take_slot(uint16_t link, struct tpacket2_hdr *info) {
    uint8_t *frame = (uint8_t *)info + info->tp_mac;
    struct header *header = (struct header *)frame;
    if (info->tp_snaplen < info->tp_len) {
        count.too_long++;
        return;
    }
    if (info->tp_status & TP_STATUS_VLAN_VALID) {
        count.not_ours++; /* the kernel took its tag off */
        return;
    }
    /* A sender on this machine left its checksum for the network card to finish. */
    bool is_unfinished = info->tp_status & TP_STATUS_CSUMNOTREADY && info->tp_snaplen >= HEADER_BYTES;
    if (is_unfinished && header->version_ihl == 0x45 && header->protocol == IPPROTO_UDP &&
        ntohs(header->udp_len) <= info->tp_snaplen - ETHERNET_BYTES - IPV4_BYTES) {
        header->udp_checksum = 0;
        header->udp_checksum = udp_checksum_of(header);
    }
    take_frame(link, frame, info->tp_snaplen);
}

/* At most BATCH frames; whether there were any. */
static bool take_ring(uint16_t link, struct ring *ring) {
    uint32_t n = 0;
    for (; n < BATCH; n++) {
        uint8_t *slot = ring->slots + (size_t)ring->slot * RING_SLOT_BYTES;
        struct tpacket2_hdr *info = (struct tpacket2_hdr *)slot;
        _Atomic uint32_t *status = (_Atomic uint32_t *)&info->tp_status;
        if (!(atomic_load_explicit(status, memory_order_acquire) & TP_STATUS_USER)) break;
        take_slot(link, info);
        atomic_store_explicit(status, TP_STATUS_KERNEL, memory_order_release);
        ring->slot = (ring->slot + 1) % ring->n_slots;
    }
    return n != 0;
}

/* ---- AF_PACKET ---- */

static int tx_fd;

static void open_afpacket(void) {
    uint32_t n_slots = RING_SLOTS;
    while (n_slots > RING_SLOTS_MIN && n_slots * n_links > RING_SLOTS) n_slots /= 2;
    for (uint32_t i = 0; i < n_links; i++) {
        open_ring(&links[i].packets, &links[i], false, n_slots);
        open_ring(&links[i].messages, &links[i], true, MESSAGE_SLOTS);
    }
    int on = 1, size = SOCKET_BUFFER_BYTES;
    tx_fd = socket(AF_PACKET, SOCK_RAW, 0);
    if (tx_fd < 0) fail("open a packet socket");
    setsockopt(tx_fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size);
    setsockopt(tx_fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof on);
    bind_to(tx_fd, &links[0], 0);
}

static void count_lost_at_rings(void) {
    for (uint32_t i = 0; i < n_links; i++) {
        count_lost_at(&links[i].packets);
        count_lost_at(&links[i].messages);
    }
}

static struct sockaddr_ll link_address(uint16_t link) {
    return (struct sockaddr_ll){.sll_family = AF_PACKET, .sll_ifindex = links[link].ifindex};
}

static void send_afpacket(const struct viewer *to, const uint8_t *frame, uint32_t len) {
    struct sockaddr_ll address = link_address(to->link);
    if (sendto(tx_fd, frame, len, MSG_DONTWAIT, (struct sockaddr *)&address, sizeof address) < 0)
        count.answers_refused++;
}

/* A copy is a header of its own and the payload in the ring: nothing is copied here. */
static void fan_out_afpacket(const struct stream *stream, const uint8_t *payload, uint32_t len) {
    static struct header headers[BATCH];
    static struct iovec parts[BATCH][2];
    static struct sockaddr_ll addresses[BATCH];
    static struct mmsghdr messages[BATCH];
    uint32_t n_retries = 0;
    for (uint32_t first = 0; first < stream->n_viewers; first += BATCH) {
        uint32_t left = stream->n_viewers - first, n = left < BATCH ? left : BATCH;
        for (uint32_t i = 0; i < n; i++) {
            const struct viewer *viewer = &stream->viewers[first + i];
            write_copy(&headers[i], viewer);
            parts[i][0] = (struct iovec){&headers[i], HEADER_BYTES};
            parts[i][1] = (struct iovec){(uint8_t *)payload, len};
            struct msghdr *message = &messages[i].msg_hdr;
            message->msg_iov = parts[i];
            message->msg_iovlen = 2;
            /* The socket is bound to the first link; the kernel looks up any other. */
            if (n_links == 1) continue;
            addresses[i] = link_address(viewer->link);
            message->msg_name = &addresses[i];
            message->msg_namelen = sizeof addresses[i];
        }
        send_all(tx_fd, messages, n, &n_retries);
    }
}

static bool round_afpacket(void) {
    bool was_any = false;
    for (uint32_t i = 0; i < n_links; i++) {
        was_any |= take_ring((uint16_t)i, &links[i].packets);
        was_any |= take_ring((uint16_t)i, &links[i].messages);
    }
    return was_any;
}

/* ---- AF_XDP ---- */

static void open_afxdp(void) {
    for (uint32_t i = 0; i < n_links; i++) {
        links[i].xdp = calloc(1, sizeof *links[i].xdp);
        if (links[i].xdp == NULL) fail("make room for an AF_XDP socket");
        open_ring(&links[i].messages, &links[i], true, MESSAGE_SLOTS);
        xdp_open_beside(links[i].xdp, links[i].name, control_port);
        waited[n_waited++] = (struct pollfd){.fd = links[i].xdp->fd, .events = POLLIN};
    }
}

static void count_lost_at_xdp(void) {
    static uint64_t before;
    uint64_t lost = 0;
    for (uint32_t i = 0; i < n_links; i++) {
        struct xdp_statistics stats = {0};
        socklen_t len = sizeof stats;
        getsockopt(links[i].xdp->fd, SOL_XDP, XDP_STATISTICS, &stats, &len);
        lost += stats.rx_dropped + stats.rx_ring_full;
        count_lost_at(&links[i].messages);
    }
    count.receive_lost += lost - before;
    before = lost;
}

/* Room for a frame: waits for the kernel to send others, but not for a link that is down. */
static uint8_t *room_for_frame(struct xdp_socket *xdp, uint64_t *address) {
    while (xdp->n_spare == 0) {
        xdp->n_unkicked += xdp->n_unkicked == 0;
        if (!xdp_kick(xdp)) return NULL;
    }
    return xdp_frame(xdp, address);
}

static void send_afxdp(const struct viewer *to, const uint8_t *frame, uint32_t len) {
    uint64_t address;
    struct xdp_socket *xdp = links[to->link].xdp;
    uint8_t *room = room_for_frame(xdp, &address);
    if (room == NULL) {
        count.answers_refused++;
        return;
    }
    memcpy(room, frame, len);
    xdp_send(xdp, address, len);
}

static void fan_out_afxdp(const struct stream *stream, const uint8_t *payload, uint32_t len) {
    for (uint32_t i = 0; i < stream->n_viewers; i++) {
        const struct viewer *viewer = &stream->viewers[i];
        struct xdp_socket *xdp = links[viewer->link].xdp;
        uint64_t address;
        uint8_t *copy = room_for_frame(xdp, &address);
        if (copy == NULL) {
            count.copies_refused++;
            continue;
        }
        write_copy((struct header *)copy, viewer);
        memcpy(copy + HEADER_BYTES, payload, len);
        xdp_send(xdp, address, HEADER_BYTES + len);
        count.copies++;
    }
}

static void kick_all(void) {
    for (uint32_t i = 0; i < n_links; i++) xdp_kick(links[i].xdp);
}

static bool round_afxdp(void) {
    bool was_any = false;
    for (uint32_t i = 0; i < n_links; i++) {
        struct xdp_socket *xdp = links[i].xdp;
        uint32_t len;
        uint8_t *frame;
        for (uint32_t n = 0; n < BATCH && (frame = xdp_peek(xdp, &len)) != NULL; n++) {
            take_frame((uint16_t)i, frame, len);
            xdp_release(xdp);
            was_any = true;
            /* Packets that wait together share their last kick. */
            if (atomic_load_explicit(xdp->rx.producer, memory_order_acquire) == xdp->rx.cached)
                kick_all();
        }
        if (take_ring((uint16_t)i, &links[i].messages)) {
            kick_all();
            was_any = true;
        }
    }
    return was_any;
}

/* ---- The command line ---- */

static const struct io ios[] = {
    {"udp", open_sockets, open_port_socket, round_udp, NULL, NULL, count_lost_at_sockets},
    {"udp_batched", open_sockets, open_port_socket, round_udp_batched, NULL, NULL,
     count_lost_at_sockets},
    {"afpacket", open_afpacket, has_every_port, round_afpacket, fan_out_afpacket, send_afpacket,
     count_lost_at_rings},
    {"afxdp", open_afxdp, has_every_port, round_afxdp, fan_out_afxdp, send_afxdp,
     count_lost_at_xdp},
};

static const char usage[] =
    "usage: pktswitch --io udp|udp_batched|afpacket|afxdp --wait spin|sleep --sfu ADDRESS:PORT\n"
    "                 [--link INTERFACE]...\n"
    "PORT is where participants subscribe. afpacket and afxdp need --link, once for each interface\n"
    "that participants are behind; sockets go where the kernel's routes lead.\n";

static void usage_error(const char *what) {
    fprintf(stderr, "pktswitch: %s\n%s", what, usage);
    exit(2);
}

static void add_link(const char *name) {
    if (n_links == LINKS_MAX) usage_error("more than 256 of --link");
    struct ifreq request = {0};
    struct link *link = &links[n_links++];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    link->name = name;
    link->ifindex = (int)if_nametoindex(name);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (link->ifindex == 0 || ioctl(fd, SIOCGIFHWADDR, &request) < 0) {
        fprintf(stderr, "pktswitch: interface \"%s\" of --link: %s\n", name, strerror(errno));
        exit(1);
    }
    memcpy(link->mac, request.ifr_hwaddr.sa_data, 6);
    close(fd);
}

static void parse(int argc, char **argv) {
    static const struct option options[] = {
        {"io", 1, NULL, 'o'},  {"wait", 1, NULL, 'w'}, {"sfu", 1, NULL, 's'},
        {"link", 1, NULL, 'l'}, {NULL, 0, NULL, 0},
    };
    const char *name = "", *sfu = NULL, *wait = "";
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'o': name = optarg; break;
        case 'w': wait = optarg; break;
        case 's': sfu = optarg; break;
        case 'l': add_link(optarg); break;
        default: usage_error("an option is unknown or lacks its value");
        }
    }
    for (size_t i = 0; i < sizeof ios / sizeof ios[0]; i++)
        if (strcmp(name, ios[i].name) == 0) io = &ios[i];
    spins = strcmp(wait, "spin") == 0;
    if (io == NULL) usage_error("--io is none of those known");
    if (!spins && strcmp(wait, "sleep") != 0) usage_error("--wait is neither spin nor sleep");
    if (sfu == NULL) usage_error("--sfu is missing");
    if (optind != argc) usage_error("there is an argument that belongs to no option");
    if (io->send == NULL && n_links != 0) usage_error("--link is for afpacket and afxdp alone");
    if (io->send != NULL && n_links == 0) usage_error("afpacket and afxdp need --link");
    parse_endpoint(sfu, &sfu_ip, &control_port);
}

static void print_counts(void) {
    const char *separator = "{";
#define PRINT(name)                                                                                \
    printf("%s\"" #name "\": %lu", separator, count.name);                                         \
    separator = ", ";
    COUNTERS(PRINT)
#undef PRINT
    puts("}");
}

int main(int argc, char **argv) {
    parse(argc, argv);
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    open_control(sfu_ip, control_port);
    open_port = io->open_port;
    io->open();
    puts("ready");
    fflush(stdout);
    while (!is_stopped) {
        expire(now_s());
        if (!io->round() && !spins) wait_readable();
    }
    io->count_lost();
    print_counts();
    return 0;
}
