/* A member of a group of authenticated ordered multicast (docs/aom.md).
 *
 * Functions return 0 or more if they did what they say, and AOM_ERROR if not; then aom_error() says why, to the
 * thread that called. A member may be used by several threads at once, but for aom_leave, after which it is gone.
 * Nothing here is ever called back. */
#ifndef AOM_H
#define AOM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define AOM_ERROR (-1)

typedef struct aom_member aom_member;
typedef struct aom_event aom_event;

enum aom_kind {
    AOM_MESSAGE = 1, /* the next message */
    AOM_DROP = 2,    /* the next number has no message here */
    AOM_EVIDENCE = 3 /* the sequencer authenticated two contents under one number */
};

/* Joins the group that the member file is of (`reprise aom member add` writes it), and waits for what the
 * configuration service says, at most timeout_ms. NULL: see aom_error(). */
aom_member *aom_join(const char *member_file, uint32_t timeout_ms);

/* Leaves: the member and all it has not told are gone. NULL is no member. */
void aom_leave(aom_member *member);

/* Sends a request to the group: any bytes, as many as fit a datagram on the way. Whether it arrives is not told. */
int aom_send(aom_member *member, const uint8_t *message, size_t message_bytes);

/* The next event, waited for at most timeout_ms: 1 and the event, which aom_event_free ends; 0 if there was none. */
int aom_next(aom_member *member, uint32_t timeout_ms, aom_event **event);

void aom_event_free(aom_event *event);

/* One of aom_kind. */
int aom_event_kind(const aom_event *event);
uint64_t aom_event_epoch(const aom_event *event);
uint32_t aom_event_sequence(const aom_event *event);

/* A message's bytes and its certificate's, which are the event's; NULL and 0 of other events. */
const uint8_t *aom_event_message(const aom_event *event, size_t *message_bytes);
const uint8_t *aom_event_certificate(const aom_event *event, size_t *certificate_bytes);

/* Of evidence: the two hashes, 64 bytes, which are the event's; NULL of other events. */
const uint8_t *aom_event_hashes(const aom_event *event);

/* Whether this member, by what it knows itself, can believe a certificate that another shows it: 1 or 0. Bytes that
 * are no certificate are an error. */
int aom_verify(aom_member *member, const uint8_t *certificate, size_t certificate_bytes, const uint8_t *message,
               size_t message_bytes);

/* How many datagrams a member has received since it joined, and how many of them it has refused, by reason. */
typedef struct aom_counters {
    uint64_t datagrams; /* that came, whatever became of them */
    /* The sequencer's packets: */
    uint64_t malformed;     /* no packet of the sequencer, or not of the group's variant */
    uint64_t other_group;   /* of another group */
    uint64_t other_epoch;   /* of another epoch */
    uint64_t wrong_shard;   /* of a shard that the group does not have */
    uint64_t no_number;     /* the number 0 */
    uint64_t wrong_digest;  /* the message is not the one of the digest */
    uint64_t forged;        /* this member's tag, or the signature, is wrong */
    uint64_t broken_link;   /* its predecessor or its successor is another packet's */
    uint64_t replayed;      /* of a number that is delivered or given up, or a second time */
    uint64_t beyond_window; /* not verified here, and of a number beyond the window */
    uint64_t too_many;      /* a number, or a shard of it, has too many contents already */
    /* The members' confirms: */
    uint64_t confirms_of_strangers;  /* of another group or epoch, or of nobody */
    uint64_t confirms_forged;        /* the signature is wrong */
    uint64_t confirms_late;          /* of a number that is settled, or a second time */
    uint64_t confirms_contradictory; /* another content than the member confirmed before */
    uint64_t confirms_beyond_window; /* of a number beyond the window */
    uint64_t confirms_unsent;        /* own ones that the kernel would not send: the others lack them */
} aom_counters;

/* Writes a member's counters as they are now. */
int aom_count(aom_member *member, aom_counters *counters);

/* What this thread's last call that failed says, for people; valid until its next call. Never NULL. */
const char *aom_error(void);

#ifdef __cplusplus
}
#endif

#endif
