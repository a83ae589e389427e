/* pktswitch's table of who gets copies of which stream, for all ways to the network. A stream is
 * in the table as long as it has viewers. Its viewers are in an array, in the order in which
 * they subscribed, which is the order of the fan-out. Addresses and ports are in network order. */
#ifndef SUBSCRIPTIONS_H
#define SUBSCRIPTIONS_H

#include <time.h>

#include "wire.h"

#define STREAMS_MAX 4096u
/* At least half of the slots stay empty, so a search is short. */
#define STREAM_SLOTS_LOG2 13
#define STREAM_SLOTS (1u << STREAM_SLOTS_LOG2)
/* The subscriptions of all streams together: more than a site of the lab has participants. */
#define SUBSCRIPTIONS_MAX 65536u
/* The number of UDP ports at which streams can come in. With the kernel's sockets each port has
 * one. */
#define PORTS_MAX 16u
#define FIRST_VIEWERS 8u

/* The counters. "streams" and "subscriptions" are the current numbers; all others only grow. The
 * answer to a STATISTICS message has this order, so new counters go to the end. */
#define COUNTERS(X)                                                                                \
    X(packets) X(copies) X(copies_refused) X(no_stream) X(too_long) X(not_ours) X(malformed)       \
    X(fragments) X(ip_options) X(receive_lost) X(messages) X(message_short) X(message_foreign)     \
    X(message_answer) X(message_unanswerable) X(challenged) X(refused_version) X(refused_length)   \
    X(refused_type) X(refused_stream) X(refused_lifetime) X(refused_streams_full)                  \
    X(refused_subscriptions_full) X(refused_port) X(subscribed) X(refreshed) X(unsubscribed)       \
    X(not_subscribed) X(statistics) X(answers_refused) X(expired) X(streams) X(subscriptions)

#define AS_FIELD(name) uint64_t name;
#define AS_ONE(name) +1
#define N_COUNTERS (0 COUNTERS(AS_ONE))

static struct {
    COUNTERS(AS_FIELD)
} count;

/* A participant that gets copies or sends a message. */
struct viewer {
    uint32_t ip;
    uint32_t words; /* of address and port, for checksums */
    uint32_t expires_s;
    uint16_t udp_port;
    uint16_t link;    /* the link behind which it is; not used with the kernel's sockets */
    uint8_t macs[12]; /* its own and the link's, as a frame begins */
};

struct stream {
    uint32_t sender_ip;
    uint16_t sender_port, sfu_port;
    uint32_t n_viewers, n_places;
    struct viewer *viewers; /* NULL where a slot is empty */
};

static struct stream streams[STREAM_SLOTS];
static struct {
    uint16_t udp_port;
    uint32_t n_streams;
} ports[PORTS_MAX];
/* Opens a UDP port, at a place of `ports`; returns false if this fails. */
static bool (*open_port)(uint32_t place, uint16_t udp_port);
/* Random and odd, so that nobody can choose senders that all fall into one slot. */
static uint64_t hash_factor;
static uint32_t first_expiry_s = UINT32_MAX;

enum outcome { DONE, WAS_SO_ALREADY, STREAMS_ARE_FULL, SUBSCRIPTIONS_ARE_FULL, PORT_IS_NOT_TO_BE_HAD };

static inline uint32_t slot_of(uint32_t sender_ip, uint16_t sender_port, uint16_t sfu_port) {
    uint64_t key = (uint64_t)sender_ip << 32 | (uint32_t)sender_port << 16 | sfu_port;
    return (uint32_t)(key * hash_factor >> (64 - STREAM_SLOTS_LOG2));
}

/* The slot of a stream, or the empty slot in which it would be. */
static inline struct stream *stream_slot(uint32_t sender_ip, uint16_t sender_port,
                                         uint16_t sfu_port) {
    uint32_t slot = slot_of(sender_ip, sender_port, sfu_port);
    while (streams[slot].viewers != NULL &&
           (streams[slot].sender_ip != sender_ip || streams[slot].sender_port != sender_port ||
            streams[slot].sfu_port != sfu_port))
        slot = (slot + 1) % STREAM_SLOTS;
    return &streams[slot];
}

static inline struct viewer *find_viewer(const struct stream *stream, const struct viewer *wanted) {
    for (uint32_t i = 0; i < stream->n_viewers; i++)
        if (stream->viewers[i].ip == wanted->ip && stream->viewers[i].udp_port == wanted->udp_port)
            return &stream->viewers[i];
    return NULL;
}

static uint32_t place_of_port(uint16_t udp_port) {
    uint32_t place = 0;
    while (place < PORTS_MAX && ports[place].udp_port != udp_port) place++;
    return place;
}

/* Adds a stream to a port. A port without streams stays open until another one needs its place,
 * so that packets that still come to it are counted. */
static bool use_port(uint16_t udp_port) {
    uint32_t place = place_of_port(udp_port);
    if (place == PORTS_MAX) {
        place = place_of_port(0);
        for (uint32_t i = 0; place == PORTS_MAX && i < PORTS_MAX; i++)
            if (ports[i].n_streams == 0) place = i;
        if (place == PORTS_MAX || !open_port(place, udp_port)) return false;
        ports[place].udp_port = udp_port;
    }
    ports[place].n_streams++;
    return true;
}

/* Frees a stream's slot. Streams after it move up, so that a search can end at the first empty
 * slot. */
static void remove_stream(struct stream *stream) {
    ports[place_of_port(stream->sfu_port)].n_streams--;
    free(stream->viewers);
    count.streams--;
    uint32_t gap = (uint32_t)(stream - streams);
    for (uint32_t at = (gap + 1) % STREAM_SLOTS; streams[at].viewers != NULL;
         at = (at + 1) % STREAM_SLOTS) {
        uint32_t home = slot_of(streams[at].sender_ip, streams[at].sender_port, streams[at].sfu_port);
        if ((at - home) % STREAM_SLOTS < (at - gap) % STREAM_SLOTS) continue;
        streams[gap] = streams[at];
        gap = at;
    }
    streams[gap] = (struct stream){0};
}

static bool has_room(struct stream *stream) {
    if (stream->n_viewers < stream->n_places) return true;
    uint32_t n_places = stream->n_places == 0 ? FIRST_VIEWERS : 2 * stream->n_places;
    struct viewer *viewers = realloc(stream->viewers, n_places * sizeof *viewers);
    if (viewers == NULL) return false;
    stream->viewers = viewers;
    stream->n_places = n_places;
    return true;
}

/* Adds a viewer, or updates its addresses and expiry if it is already there. If the outcome is
 * neither DONE nor WAS_SO_ALREADY, nothing has changed. */
static enum outcome subscribe(uint32_t sender_ip, uint16_t sender_port, uint16_t sfu_port,
                              const struct viewer *viewer) {
    struct stream *stream = stream_slot(sender_ip, sender_port, sfu_port);
    struct viewer *known = find_viewer(stream, viewer);
    if (known == NULL) {
        if (count.subscriptions == SUBSCRIPTIONS_MAX) return SUBSCRIPTIONS_ARE_FULL;
        bool is_new = stream->viewers == NULL;
        if (is_new && count.streams == STREAMS_MAX) return STREAMS_ARE_FULL;
        if (is_new && !use_port(sfu_port)) return PORT_IS_NOT_TO_BE_HAD;
        if (is_new) {
            stream->sender_ip = sender_ip;
            stream->sender_port = sender_port;
            stream->sfu_port = sfu_port;
        }
        if (!has_room(stream)) {
            if (is_new) ports[place_of_port(sfu_port)].n_streams--;
            return SUBSCRIPTIONS_ARE_FULL;
        }
        count.streams += is_new;
        count.subscriptions++;
        stream->viewers[stream->n_viewers++] = *viewer;
    } else {
        *known = *viewer;
    }
    if (viewer->expires_s < first_expiry_s) first_expiry_s = viewer->expires_s;
    return known == NULL ? DONE : WAS_SO_ALREADY;
}

static void remove_viewer(struct stream *stream, struct viewer *viewer) {
    uint32_t n_behind = stream->n_viewers - (uint32_t)(viewer - stream->viewers) - 1;
    memmove(viewer, viewer + 1, n_behind * sizeof *viewer);
    count.subscriptions--;
    if (--stream->n_viewers == 0) remove_stream(stream);
}

static enum outcome unsubscribe(uint32_t sender_ip, uint16_t sender_port, uint16_t sfu_port,
                                const struct viewer *viewer) {
    struct stream *stream = stream_slot(sender_ip, sender_port, sfu_port);
    struct viewer *known = find_viewer(stream, viewer);
    if (known == NULL) return WAS_SO_ALREADY;
    remove_viewer(stream, known);
    return DONE;
}

static inline uint32_t now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint32_t)now.tv_sec;
}

/* Removes viewers whose lifetime is over. Looks at all viewers, but only when the first expiry
 * is due. */
static inline void expire(uint32_t now) {
    if (now < first_expiry_s) return;
    first_expiry_s = UINT32_MAX;
    for (uint32_t slot = 0; slot < STREAM_SLOTS; slot++) {
        for (uint32_t i = 0; i < streams[slot].n_viewers;) {
            struct viewer *viewer = &streams[slot].viewers[i];
            if (viewer->expires_s <= now) {
                /* The next viewer moves to this place; after a stream's last viewer, the next
                 * stream does. */
                remove_viewer(&streams[slot], viewer);
                count.expired++;
            } else {
                if (viewer->expires_s < first_expiry_s) first_expiry_s = viewer->expires_s;
                i++;
            }
        }
    }
}

#endif
