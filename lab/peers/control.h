/* The protocol by which participants subscribe to streams: lab/peers/pktswitch.md. Each message gets
 * at most one answer. This file does no I/O. */
#ifndef CONTROL_H
#define CONTROL_H

#include <endian.h>
#include <sys/random.h>

#include "subscriptions.h"

#define MAGIC 0x706b /* "pk" */
#define VERSION 1
#define LIFETIME_MAX_S 86400u
#define FIRST_SFU_PORT 1024u

enum message_type {
    SUBSCRIBE = 1,
    UNSUBSCRIBE = 2,
    STATISTICS = 3,
    ANSWER = 0x80, /* added to the type of the message that is answered */
    CHALLENGE = 0xc0,
    REFUSED = 0xc1,
};

enum reason {
    VERSION_IS_OTHER = 1,
    LENGTH_IS_OTHER,
    TYPE_IS_UNKNOWN,
    STREAM_CANNOT_BE,
    LIFETIME_CANNOT_BE,
    NO_ROOM_FOR_STREAM,
    NO_ROOM_FOR_SUBSCRIPTION,
    NO_PORT,
};

/* In network order. */
struct message {
    uint16_t magic;
    uint8_t version, type;
    uint32_t request;
    uint64_t token;
    uint32_t sender_ip;
    uint16_t sender_port, sfu_port;
    uint32_t value;
} __attribute__((packed));

_Static_assert(sizeof(struct message) == 28, "the message has no holes");

#define ANSWER_BYTES_MAX (sizeof(struct message) + 8 * N_COUNTERS)

static struct {
    uint32_t sfu_ip;
    uint16_t control_port;
    uint64_t secret[2];
} control;

static void open_control(uint32_t sfu_ip, uint16_t control_port) {
    control.sfu_ip = sfu_ip;
    control.control_port = control_port;
    if (getrandom(control.secret, sizeof control.secret, 0) != sizeof control.secret ||
        getrandom(&hash_factor, sizeof hash_factor, 0) != sizeof hash_factor) {
        fputs("pktswitch: the kernel has no random numbers\n", stderr);
        exit(1);
    }
    hash_factor |= 1;
}

static inline void sip_rounds(uint64_t v[4], int n) {
#define ROTATED(x, by) ((x) << (by) | (x) >> (64 - (by)))
    for (int i = 0; i < n; i++) {
        v[0] += v[1], v[2] += v[3];
        v[1] = ROTATED(v[1], 13) ^ v[0], v[3] = ROTATED(v[3], 16) ^ v[2];
        v[0] = ROTATED(v[0], 32);
        v[2] += v[1], v[0] += v[3];
        v[1] = ROTATED(v[1], 17) ^ v[2], v[3] = ROTATED(v[3], 21) ^ v[0];
        v[2] = ROTATED(v[2], 32);
    }
#undef ROTATED
}

/* The token of an address, which only somebody who receives at the address can know: SipHash-2-4
 * of eight bytes (address, port, zeros) with this process' secret. So the process stores nothing
 * for a participant until it has shown its token. */
static uint64_t token_of(const struct viewer *from) {
    const uint64_t *key = control.secret;
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                     key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
    const uint64_t blocks[2] = {(uint64_t)from->udp_port << 32 | from->ip, 8ull << 56};
    for (int i = 0; i < 2; i++) {
        v[3] ^= blocks[i];
        sip_rounds(v, 2);
        v[0] ^= blocks[i];
    }
    v[2] ^= 0xff;
    sip_rounds(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static void refuse(struct message *answer, enum reason reason, uint64_t *counter) {
    answer->type = REFUSED;
    answer->value = htonl(reason);
    ++*counter;
}

static bool is_stream(const struct message *asked) {
    uint8_t first = (uint8_t)(ntohl(asked->sender_ip) >> 24);
    return first != 0 && first != 127 && first < 224 && asked->sender_ip != control.sfu_ip &&
           asked->sender_port != 0 && ntohs(asked->sfu_port) >= FIRST_SFU_PORT &&
           asked->sfu_port != control.control_port;
}

static void answer_subscribe(struct message *answer, const struct message *asked,
                             const struct viewer *from, uint32_t now) {
    uint32_t lifetime_s = ntohl(asked->value);
    if (lifetime_s == 0 || lifetime_s > LIFETIME_MAX_S) {
        refuse(answer, LIFETIME_CANNOT_BE, &count.refused_lifetime);
        return;
    }
    struct viewer viewer = *from;
    viewer.expires_s = now + lifetime_s + 1; /* one more, because the current second is not a whole one */
    switch (subscribe(asked->sender_ip, asked->sender_port, asked->sfu_port, &viewer)) {
    case DONE: count.subscribed++; break;
    case WAS_SO_ALREADY: count.refreshed++; break;
    case STREAMS_ARE_FULL: refuse(answer, NO_ROOM_FOR_STREAM, &count.refused_streams_full); break;
    case SUBSCRIPTIONS_ARE_FULL:
        refuse(answer, NO_ROOM_FOR_SUBSCRIPTION, &count.refused_subscriptions_full);
        break;
    case PORT_IS_NOT_TO_BE_HAD: refuse(answer, NO_PORT, &count.refused_port); break;
    }
}

static void answer_unsubscribe(struct message *answer, const struct message *asked,
                               const struct viewer *from) {
    bool was_there =
        unsubscribe(asked->sender_ip, asked->sender_port, asked->sfu_port, from) == DONE;
    answer->value = htonl(was_there);
    ++*(was_there ? &count.unsubscribed : &count.not_subscribed);
}

static uint32_t write_statistics(uint8_t *to) {
    uint64_t *counters = (uint64_t *)&count;
    for (uint32_t i = 0; i < N_COUNTERS; i++) {
        uint64_t value = htobe64(counters[i]);
        memcpy(to + 8 * i, &value, sizeof value);
    }
    return 8 * N_COUNTERS;
}

/* Whether a message gets an answer. A message gets none if it is shorter than the answer would
 * be, or if its type is that of an answer. */
static bool is_answerable(const struct message *asked, uint32_t len, const struct viewer *from) {
    uint64_t *dropped = NULL;
    if (len < sizeof *asked) dropped = &count.message_short;
    else if (asked->magic != htons(MAGIC)) dropped = &count.message_foreign;
    else if (asked->type & ANSWER) dropped = &count.message_answer;
    else if (from->udp_port == 0 || from->ip == control.sfu_ip) dropped = &count.message_unanswerable;
    if (dropped != NULL) ++*dropped;
    return dropped == NULL;
}

/* Does what a message asks for. Returns the length of the answer in `reply`, or 0 if there is
 * none. */
static uint32_t answer_message(const uint8_t *message, uint32_t len, const struct viewer *from,
                               uint32_t now, uint8_t reply[ANSWER_BYTES_MAX]) {
    count.messages++;
    struct message asked = {0};
    memcpy(&asked, message, len < sizeof asked ? len : sizeof asked);
    if (!is_answerable(&asked, len, from)) return 0;
    struct message answer = asked;
    uint32_t n_more = 0;
    answer.version = VERSION;
    answer.type = asked.type | ANSWER;
    uint64_t token = token_of(from);
    if (asked.version != VERSION) {
        refuse(&answer, VERSION_IS_OTHER, &count.refused_version);
    } else if (asked.type < SUBSCRIBE || asked.type > STATISTICS) {
        refuse(&answer, TYPE_IS_UNKNOWN, &count.refused_type);
    } else if (len != sizeof asked) {
        refuse(&answer, LENGTH_IS_OTHER, &count.refused_length);
    } else if (asked.token != token) {
        answer.type = CHALLENGE;
        answer.token = token;
        count.challenged++;
    } else if (asked.type == STATISTICS) {
        count.statistics++;
        n_more = write_statistics(reply + sizeof answer);
    } else if (asked.type == UNSUBSCRIBE) {
        answer_unsubscribe(&answer, &asked, from);
    } else if (!is_stream(&asked)) {
        refuse(&answer, STREAM_CANNOT_BE, &count.refused_stream);
    } else {
        answer_subscribe(&answer, &asked, from, now);
    }
    memcpy(reply, &answer, sizeof answer);
    return sizeof answer + n_more;
}

#endif
