/* The relay's user-space program: loads relay.bpf.o, attaches it to an interface, and reads groups
 * from standard input, one in each line:
 *
 *   SENDER_ADDRESS PORT [VIEWER_ADDRESS PORT MAC]...
 *
 * All copies leave by this interface. Each line is answered with "done N", where N is its number
 * from 1, or with "refused: " and the reason. When the input ends, or at SIGTERM or SIGINT, the
 * program prints its counters as JSON, and the BPF program is detached from the interface. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "relay.h"

#define VIEWERS_MAX 4096

static struct {
    struct bpf_object *object;
    int streams, groups, viewers, copies, drops, egress;
    unsigned interface;
} relay;

/* The current versions of groups. */
static struct {
    __u32 n_viewers;
    bool is_taken;
} slots[SLOTS];

static struct counted gone; /* the copies of versions that were removed */

static void fail(const char *what) {
    fprintf(stderr, "xdp_relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int map_named(const char *name) {
    int fd = bpf_object__find_map_fd_by_name(relay.object, name);
    if (fd < 0) fail(name);
    return fd;
}

static int program_named(const char *name) {
    struct bpf_program *program = bpf_object__find_program_by_name(relay.object, name);
    int fd = program == NULL ? -1 : bpf_program__fd(program);
    if (fd < 0) fail(name);
    return fd;
}

static void load(const char *path, const struct own *own) {
    relay.object = bpf_object__open_file(path, NULL);
    if (relay.object == NULL) fail(path);
    struct bpf_map *constants = NULL;
    bpf_object__for_each_map(constants, relay.object) {
        if (strstr(bpf_map__name(constants), ".rodata") == NULL) continue;
        if (bpf_map__set_initial_value(constants, own, sizeof *own) != 0) fail("set the addresses");
    }
    if (bpf_object__load(relay.object) != 0) fail("load the programs");
    relay.streams = map_named("streams");
    relay.groups = map_named("groups");
    relay.viewers = map_named("viewers");
    relay.copies = map_named("copies");
    relay.drops = map_named("drops");
    relay.egress = program_named("copy_out");
}

/* Attaches the program by a BPF link, which the kernel removes when this process ends. */
static void attach(void) {
    LIBBPF_OPTS(bpf_link_create_opts, options, .flags = XDP_FLAGS_DRV_MODE);
    if (bpf_link_create(program_named("relay"), (int)relay.interface, BPF_XDP, &options) < 0)
        fail("attach to the interface in native mode");
}

static struct counted counted_at(int map, const void *key) {
    int n = libbpf_num_possible_cpus();
    struct counted sum = {0}, *of_processors = calloc((size_t)n, sizeof sum);
    if (of_processors == NULL) fail("read a counter");
    if (bpf_map_lookup_elem(map, key, of_processors) == 0)
        for (int i = 0; i < n; i++) {
            sum.packets += of_processors[i].packets;
            sum.bytes += of_processors[i].bytes;
        }
    free(of_processors);
    return sum;
}

static struct counted copies_of(__u32 slot) {
    struct counted sum = {0};
    for (__u32 place = 0; place < slots[slot].n_viewers; place++) {
        struct counted one = counted_at(relay.copies, &(struct place){slot, place});
        sum.packets += one.packets;
        sum.bytes += one.bytes;
    }
    return sum;
}

static const char *set_place(__u32 slot, __u32 place, const struct viewer *viewer, int devices) {
    struct place key = {slot, place};
    struct bpf_devmap_val device = {.ifindex = relay.interface, .bpf_prog.fd = relay.egress};
    struct counted *none = calloc((size_t)libbpf_num_possible_cpus(), sizeof *none);
    bool is_done = none != NULL && bpf_map_update_elem(relay.viewers, &key, viewer, BPF_ANY) == 0 &&
                   bpf_map_update_elem(relay.copies, &key, none, BPF_ANY) == 0 &&
                   bpf_map_update_elem(devices, &place, &device, BPF_ANY) == 0;
    free(none);
    return is_done ? NULL : strerror(errno);
}

/* Frees the slot of a version. No packet uses it any more: the update of an outer map has waited
 * for packets that did. */
static void free_slot(__u32 slot) {
    bpf_map_delete_elem(relay.groups, &slot);
    struct counted last = copies_of(slot);
    gone.packets += last.packets;
    gone.bytes += last.bytes;
    for (__u32 place = 0; place < slots[slot].n_viewers; place++) {
        struct place key = {slot, place};
        bpf_map_delete_elem(relay.viewers, &key);
        bpf_map_delete_elem(relay.copies, &key);
    }
    slots[slot].n_viewers = 0;
    slots[slot].is_taken = false;
}

/* Makes a new version of a stream's group. The version is complete before the stream's entry
 * names it. */
static const char *set_group(const struct stream *stream, const struct viewer *viewers, __u32 n) {
    __u32 slot = 0, before;
    bool was_there = bpf_map_lookup_elem(relay.streams, stream, &before) == 0;
    if (n == 0) {
        if (was_there && bpf_map_delete_elem(relay.streams, stream) != 0) return strerror(errno);
        if (was_there) free_slot(before);
        return NULL;
    }
    while (slot < SLOTS && slots[slot].is_taken) slot++;
    if (slot == SLOTS) return "there is no room for one more group";
    int devices = bpf_map_create(BPF_MAP_TYPE_DEVMAP, "devices", sizeof(__u32),
                                 sizeof(struct bpf_devmap_val), n, NULL);
    if (devices < 0) return strerror(errno);
    slots[slot].is_taken = true;
    slots[slot].n_viewers = n;
    const char *refused = NULL;
    for (__u32 place = 0; place < n && refused == NULL; place++)
        refused = set_place(slot, place, &viewers[place], devices);
    if (refused == NULL && (bpf_map_update_elem(relay.groups, &slot, &devices, BPF_ANY) != 0 ||
                            bpf_map_update_elem(relay.streams, stream, &slot, BPF_ANY) != 0))
        refused = strerror(errno);
    close(devices);
    if (refused != NULL) free_slot(slot);
    else if (was_there) free_slot(before);
    return refused;
}


static bool parse_mac(const char *text, __u8 mac[6]) {
    return text != NULL && sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2],
                                  &mac[3], &mac[4], &mac[5]) == 6;
}

static const char *take_line(char *line) {
    static struct viewer viewers[VIEWERS_MAX];
    const char *malformed = "expected SENDER PORT and for each viewer ADDRESS PORT MAC";
    struct stream stream = {0};
    char *sender = strtok(line, " \n"), *port = strtok(NULL, " \n");
    if (sender == NULL || port == NULL || inet_pton(AF_INET, sender, &stream.sender_ip) != 1)
        return malformed;
    stream.port = htons((__u16)strtoul(port, NULL, 10));
    for (__u32 n = 0; n < VIEWERS_MAX; n++) {
        char *address = strtok(NULL, " \n");
        if (address == NULL) return set_group(&stream, viewers, n);
        char *to = strtok(NULL, " \n"), *mac = strtok(NULL, " \n");
        if (to == NULL || inet_pton(AF_INET, address, &viewers[n].ip) != 1 ||
            !parse_mac(mac, viewers[n].mac))
            return malformed;
        viewers[n].port = htons((__u16)strtoul(to, NULL, 10));
    }
    return "too many viewers";
}

static void print_counters(void) {
    static const char *names[N_DROPS] = {"malformed", "ttl_is_over", "no_stream", "no_viewer"};
    struct counted copies = gone;
    for (__u32 slot = 0; slot < SLOTS; slot++) copies.packets += copies_of(slot).packets;
    printf("{\"copies\": %llu", copies.packets);
    for (__u32 why = 0; why < N_DROPS; why++)
        printf(", \"%s\": %llu", names[why], counted_at(relay.drops, &why).packets);
    puts("}");
}

/* Ends the reading of standard input, even if it has not begun yet. */
static void stop(int signal) {
    (void)signal;
    close(STDIN_FILENO);
}

int main(int argc, char **argv) {
    struct own own = {0};
    if (argc != 5 || inet_pton(AF_INET, argv[3], &own.ip) != 1 || !parse_mac(argv[4], own.mac)) {
        fputs("usage: xdp_relay relay.bpf.o INTERFACE OWN_ADDRESS OWN_MAC\n", stderr);
        return 2;
    }
    relay.interface = if_nametoindex(argv[2]);
    if (relay.interface == 0) fail(argv[2]);
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    load(argv[1], &own);
    attach();
    puts("ready");
    fflush(stdout);
    static char *line;
    static size_t room;
    for (unsigned number = 1; getline(&line, &room, stdin) > 0; number++) {
        const char *refused = take_line(line);
        if (refused == NULL) printf("done %u\n", number);
        else printf("refused: %s\n", refused);
        fflush(stdout);
    }
    print_counters();
    return 0;
}
