/* What is common to all of pktswitch's ways to the network. */
#ifndef IO_H
#define IO_H

#include <linux/if_ether.h>
#include <netinet/in.h>

#include "control.h"
#include "xdp.h"

/* The most packets in one call, and from one port or link before the next one is served. */
#define BATCH 64u
#define LINKS_MAX 256u
#define RING_SLOT_BYTES 2048u
#define SOCKET_BUFFER_BYTES (4 << 20)
#define PAYLOAD_BYTES_MAX (FRAME_BYTES_MAX - HEADER_BYTES)
#define WAIT_MS 200
/* How often sending is repeated when the kernel has no room, over all copies of a packet. */
#define RETRIES_MAX 1000u

/* The receive ring of a packet socket (TPACKET_V2). */
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
    bool (*round)(void); /* takes at most BATCH packets from each port or link; false if there were none */
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
/* The descriptors that are polled. With sockets the first is for messages, then there is one for
 * each of `ports`. */
static struct pollfd waited[2 * LINKS_MAX];
static uint32_t n_waited;

static void fail(const char *what) {
    fprintf(stderr, "pktswitch: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void wait_readable(void) {
    if (poll(waited, n_waited, WAIT_MS) <= 0) return;
    for (uint32_t i = 0; i < n_waited; i++) {
        int error;
        socklen_t len = sizeof error;
        /* Reading the error of a link that went down clears it; otherwise poll would return at
         * once. */
        if (waited[i].revents & POLLERR) getsockopt(waited[i].fd, SOL_SOCKET, SO_ERROR, &error, &len);
    }
}

static bool is_full_for_now(void) {
    return errno == EAGAIN || errno == EINTR || errno == ENOBUFS || errno == EBUSY;
}

/* The kernel's drops are read only for a STATISTICS message, because this takes a call for each
 * socket. */
static void count_lost_if_asked(const uint8_t *message, uint32_t len) {
    if (len >= sizeof(struct message) && ((const struct message *)message)->type == STATISTICS)
        io->count_lost();
}

/* Sends `n` copies, in order, and counts each as sent or as refused by the kernel. If the kernel
 * has no room, sending is repeated, but not for ever, because a link may be down. */
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

#endif
