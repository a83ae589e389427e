/* A member in C: prints what it is told, until it was told so many messages, and sends one of its own.
 *
 *   cc -I crates/aom/c/include examples/aom_member.c -L target/release -laom_c -o aom_member
 *   LD_LIBRARY_PATH=target/release ./aom_member m0.member 10 */
#include <aom.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char *what) {
    fprintf(stderr, "%s: %s\n", what, aom_error());
    return EXIT_FAILURE;
}

/* A message, and whether this member believes its certificate, and not with another message. */
static void print_message(aom_member *member, const aom_event *event) {
    size_t message_bytes, certificate_bytes;
    const uint8_t *message = aom_event_message(event, &message_bytes);
    const uint8_t *certificate = aom_event_certificate(event, &certificate_bytes);
    int right = aom_verify(member, certificate, certificate_bytes, message, message_bytes);
    int wrong = aom_verify(member, certificate, certificate_bytes, (const uint8_t *)"other", 5);
    printf("message %" PRIu64 " %" PRIu32 " %.*s (believed: %d, altered: %d)\n", aom_event_epoch(event),
           aom_event_sequence(event), (int)message_bytes, (const char *)message, right, wrong);
}

static int receive(aom_member *member, int n_messages) {
    while (n_messages > 0) {
        aom_event *event;
        int found = aom_next(member, 10000, &event);
        if (found < 0)
            return failed("aom_next");
        if (found == 0) {
            fprintf(stderr, "nothing came for 10 s\n");
            return EXIT_FAILURE;
        }
        if (aom_event_kind(event) == AOM_MESSAGE) {
            print_message(member, event);
            n_messages--;
        } else if (aom_event_kind(event) == AOM_DROP) {
            printf("drop %" PRIu64 " %" PRIu32 " to %" PRIu32 "\n", aom_event_epoch(event), aom_event_sequence(event),
                   aom_event_last_sequence(event));
        } else {
            printf("evidence %" PRIu64 " %" PRIu32 "\n", aom_event_epoch(event), aom_event_sequence(event));
        }
        fflush(stdout);
        aom_event_free(event);
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "expected a member file and how many messages to wait for\n");
        return EXIT_FAILURE;
    }
    aom_member *member = aom_join(argv[1], 20000);
    if (member == NULL)
        return failed("aom_join");
    printf("joined\n");
    fflush(stdout);
    const char *hello = "hello from C";
    if (aom_send(member, (const uint8_t *)hello, strlen(hello)) < 0)
        return failed("aom_send");
    int code = receive(member, atoi(argv[2]));
    aom_leave(member);
    return code;
}
