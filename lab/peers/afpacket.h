/* pktswitch on packet sockets: it receives by TPACKET_V2 rings and sends by sendmmsg, past the
 * queueing discipline. */
#ifndef AFPACKET_H
#define AFPACKET_H

#include <linux/filter.h>
#include <linux/if_packet.h>

#include "frames.h"

/* The slots of all links' rings together. Messages have a ring of their own, so that a
 * participant can unsubscribe however many packets come. */
#define RING_SLOTS 4096u
#define RING_SLOTS_MIN 256u
#define MESSAGE_SLOTS 256u
#define RING_BLOCK_BYTES 65536u

static void bind_to(int fd, const struct link *link, uint16_t protocol) {
    struct sockaddr_ll address = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(protocol),
                                  .sll_ifindex = link->ifindex};
    if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) fail("bind a packet socket");
}

/* Accepts only messages, which are datagrams without IP options to the control port, or only
 * everything else. */
static void attach_filter(int fd, bool is_for_messages) {
    uint32_t message = is_for_messages ? UINT32_MAX : 0, other = ~message;
    struct sock_filter code[] = {
        /* A filter that reads beyond a frame's end drops the frame, and nothing would count
         * this. */
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
    /* Reading resets the counters to zero. */
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
        count.not_ours++; /* the kernel removed its VLAN tag */
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

/* Takes at most BATCH frames; returns whether there were any. */
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

/* A copy consists of a header of its own and of the payload, which stays in the ring. */
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
            /* The socket is bound to the first link; for any other the message names the
             * interface. */
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

#endif
