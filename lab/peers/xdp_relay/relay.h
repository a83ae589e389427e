/* The data that the relay's BPF program and its user-space program share. Addresses and ports
 * are in network order. */
#ifndef RELAY_H
#define RELAY_H

#include <linux/types.h>

/* The most versions of groups at one time, the most viewers of all versions together, the most
 * streams. */
#define SLOTS 64
#define COPIES_MAX 65536
#define STREAMS_MAX 1024

/* The relay's own addresses, which are set before the program is loaded. */
struct own {
    __u8 mac[6], zero[2];
    __be32 ip;
};

/* A stream is identified by its sender and by the relay's port to which it is sent. */
struct stream {
    __be32 sender_ip;
    __be16 port, zero;
};

/* A copy is identified by the slot of its group's version and by its place in the group. */
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
