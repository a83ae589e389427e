/* pktswitch on AF_XDP, with a socket for each link. Messages come by packet sockets. */
#ifndef AFXDP_H
#define AFXDP_H

#include "afpacket.h"

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

/* Returns room for a frame. Waits until the kernel has sent others; returns NULL if the link is
 * down. */
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
            /* The kernel is kicked only after the last of the packets that wait. */
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

#endif
