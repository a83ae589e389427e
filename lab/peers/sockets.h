/* pktswitch on the kernel's UDP sockets: one call for each packet (as in the paper), or batches. */
#ifndef SOCKETS_H
#define SOCKETS_H

#include <linux/sock_diag.h>

#include "io.h"

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

/* Takes at most BATCH messages; returns whether there were any. */
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

/* The stream to which a datagram at a port belongs, or NULL if it has no viewers or is too long. */
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

#endif
