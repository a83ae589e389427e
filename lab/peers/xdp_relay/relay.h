/* What the relay's two halves, in the kernel and beside it, know of each other. Numbers of the wire are in
 * network order. */
#ifndef RELAY_H
#define RELAY_H

#include <linux/types.h>

/* Versions of groups that may be there at once, and viewers of all of them. */
#define SLOTS 64
#define COPIES_MAX 65536
#define STREAMS_MAX 1024

/* The relay's own addresses, set before loading. */
struct own {
    __u8 mac[6], zero[2];
    __be32 ip;
};

/* A stream: who sends it, to which port of the relay. */
struct stream {
    __be32 sender_ip;
    __be16 port, zero;
};

/* A copy: the version of a group, and the copy's place in it. */
struct place {
    __u32 slot, place;
};

struct viewer {
    __be32 ip;
    __be16 port;
    __u8 mac[6];
};

struct counted {
    __u64 packets, bytes;
};

/* Why the relay dropped a packet. */
enum drop { MALFORMED, TTL_IS_OVER, NO_STREAM, NO_VIEWER, N_DROPS };

#endif
