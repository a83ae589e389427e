/* A member of a group of authenticated ordered multicast (docs/aom.md).
 *
 * Functions that return an int return 0 or more on success and AOM_ERROR on failure; aom_error() then gives the
 * reason in the calling thread. Several threads may use a member at once; aom_leave must be the last call that uses
 * it. There are no callbacks. */
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
    AOM_MESSAGE = 1, /* the message with the next sequence number */
    AOM_DROP = 2,    /* the messages with the next sequence numbers, one or billions, were lost */
    AOM_EVIDENCE = 3 /* equivocation: the sequencer authenticated two messages with one sequence number */
};

/* Joins the group of a member file (`reprise aom member add` writes it), and waits at most timeout_ms for the
 * membership from the configuration service. Returns NULL on failure. */
aom_member *aom_join(const char *member_file, uint32_t timeout_ms);

/* Leaves the group, and frees the member with all events that aom_next has not returned. NULL is ignored. */
void aom_leave(aom_member *member);

/* Sends a request to the group, of any bytes that fit one UDP datagram on the path. Delivery is not confirmed. */
int aom_send(aom_member *member, const uint8_t *message, size_t message_bytes);

/* Waits at most timeout_ms for the next event. Returns 1 and the event, which the caller frees with aom_event_free,
 * or 0 after the timeout. */
int aom_next(aom_member *member, uint32_t timeout_ms, aom_event **event);

void aom_event_free(aom_event *event);

/* Returns one of aom_kind. */
int aom_event_kind(const aom_event *event);
uint64_t aom_event_epoch(const aom_event *event);

/* The sequence number of a message or of AOM_EVIDENCE. For AOM_DROP, aom_event_sequence returns the first lost number
 * and aom_event_last_sequence the last one; all numbers between them were lost too. */
uint32_t aom_event_sequence(const aom_event *event);
uint32_t aom_event_last_sequence(const aom_event *event);

/* The bytes of a message and of its certificate, valid until aom_event_free; NULL and 0 for other events. */
const uint8_t *aom_event_message(const aom_event *event, size_t *message_bytes);
const uint8_t *aom_event_certificate(const aom_event *event, size_t *certificate_bytes);

/* The two hashes of an AOM_EVIDENCE event, 64 bytes, valid until aom_event_free; NULL for other events. */
const uint8_t *aom_event_hashes(const aom_event *event);

/* Returns a newer certificate of a message of the current epoch, with the tags that have come since the delivery. Call
 * it before you show the message to another member: if somebody sends false tags, some members accept this certificate
 * and refuse the one of the message's event. Returns 1 and an event that has the certificate and no message, which the
 * caller frees with aom_event_free, or 0 if the certificate of the message's event is the only one. */
int aom_certificate(aom_member *member, uint64_t epoch, uint32_t sequence, aom_event **event);

/* Verifies another member's certificate of a message with this member's own keys: 1 if it is valid, 0 if not. A valid
 * certificate proves only the epoch and the sequence number that aom_certificate_number returns: compare them with
 * those that you asked for. Bytes that cannot be parsed as a certificate are an error. */
int aom_verify(aom_member *member, const uint8_t *certificate, size_t certificate_bytes, const uint8_t *message,
               size_t message_bytes);

/* Reads the epoch and the sequence number of a certificate. Bytes that cannot be parsed as a certificate are an
 * error. */
int aom_certificate_number(const uint8_t *certificate, size_t certificate_bytes, uint64_t *epoch, uint32_t *sequence);

/* Datagrams that a member has received since it joined, and those that it refused, by reason. */
typedef struct aom_counters {
    uint64_t datagrams; /* all datagrams, accepted and refused */
    /* Refused packets of the sequencer: */
    uint64_t malformed;     /* cannot be parsed, or not of the group's variant */
    uint64_t other_group;   /* another group's number */
    uint64_t other_epoch;   /* another epoch */
    uint64_t wrong_shard;   /* a shard that the group does not have */
    uint64_t no_number;     /* sequence number 0 */
    uint64_t wrong_digest;  /* the message does not match its digest */
    uint64_t forged;        /* this member's tag, or the signature, is wrong */
    uint64_t broken_link;   /* the hash chain does not match the packet before or after */
    uint64_t replayed;      /* a duplicate, or a sequence number that was delivered or given up */
    uint64_t beyond_window; /* unverified, with a sequence number beyond the receive window */
    uint64_t too_many;      /* too many different messages with one sequence number and shard */
    /* Refused confirms of members: */
    uint64_t confirms_of_strangers;  /* another group or epoch, or not from a member */
    uint64_t confirms_forged;        /* the signature is wrong */
    uint64_t confirms_late;          /* a duplicate, or a sequence number that was delivered or given up */
    uint64_t confirms_contradictory; /* the member confirmed another message with this sequence number before */
    uint64_t confirms_beyond_window; /* a sequence number beyond the receive window */
    uint64_t confirms_unsent;        /* own confirms that the kernel failed to send */
} aom_counters;

/* Copies a member's current counters. */
int aom_count(aom_member *member, aom_counters *counters);

/* The error message of this thread's last failed call, valid until its next call. Never NULL. */
const char *aom_error(void);

#ifdef __cplusplus
}
#endif

#endif
