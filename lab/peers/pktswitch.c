/* pktswitch: a selective forwarding unit as described by Baltas and Xylomenos (ISCC 2015).
 * Participants subscribe to streams while it runs (lab/peers/pktswitch.md). Each packet of a stream is
 * sent once to each of its viewers, with its payload unchanged. The program has one table and one
 * protocol (subscriptions.h, control.h) and four ways to the network (sockets.h, afpacket.h,
 * afxdp.h):
 *
 *   --io udp          recvfrom and sendto, one call a packet: the paper's sockets
 *   --io udp_batched  recvmmsg and sendmmsg
 *   --io afpacket receives by a TPACKET_V2 ring, sends by sendmmsg past the queueing discipline
 *   --io afxdp an AF_XDP socket for each link, in place of the paper's netmap
 *
 * The last two read and write whole frames and do what the kernel does for a socket: they accept
 * only complete, valid datagrams to the SFU's addresses, and send new datagrams (TTL 64). The
 * program prints "ready" when it listens, runs until SIGTERM, then prints its counters as JSON. */
#define _GNU_SOURCE
#include <getopt.h>
#include <signal.h>
#include <sys/ioctl.h>

#include "afxdp.h"
#include "sockets.h"

static volatile sig_atomic_t is_stopped;

static void stop(int signal) {
    (void)signal;
    is_stopped = 1;
}

static const struct io ios[] = {
    {"udp", open_sockets, open_port_socket, round_udp, NULL, NULL, count_lost_at_sockets},
    {"udp_batched", open_sockets, open_port_socket, round_udp_batched, NULL, NULL,
     count_lost_at_sockets},
    {"afpacket", open_afpacket, has_every_port, round_afpacket, fan_out_afpacket, send_afpacket,
     count_lost_at_rings},
    {"afxdp", open_afxdp, has_every_port, round_afxdp, fan_out_afxdp, send_afxdp,
     count_lost_at_xdp},
};

static const char usage[] =
    "usage: pktswitch --io udp|udp_batched|afpacket|afxdp --wait spin|sleep --sfu ADDRESS:PORT\n"
    "                 [--link INTERFACE]...\n"
    "PORT is where participants subscribe. afpacket and afxdp need --link, once for each interface\n"
    "that participants are behind; sockets go where the kernel's routes lead.\n";

static void usage_error(const char *what) {
    fprintf(stderr, "pktswitch: %s\n%s", what, usage);
    exit(2);
}

static void add_link(const char *name) {
    if (n_links == LINKS_MAX) usage_error("more than 256 of --link");
    struct ifreq request = {0};
    struct link *link = &links[n_links++];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    link->name = name;
    link->ifindex = (int)if_nametoindex(name);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    if (link->ifindex == 0 || ioctl(fd, SIOCGIFHWADDR, &request) < 0) {
        fprintf(stderr, "pktswitch: interface \"%s\" of --link: %s\n", name, strerror(errno));
        exit(1);
    }
    memcpy(link->mac, request.ifr_hwaddr.sa_data, 6);
    close(fd);
}

static void parse(int argc, char **argv) {
    static const struct option options[] = {
        {"io", 1, NULL, 'o'},  {"wait", 1, NULL, 'w'}, {"sfu", 1, NULL, 's'},
        {"link", 1, NULL, 'l'}, {NULL, 0, NULL, 0},
    };
    const char *name = "", *sfu = NULL, *wait = "";
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'o': name = optarg; break;
        case 'w': wait = optarg; break;
        case 's': sfu = optarg; break;
        case 'l': add_link(optarg); break;
        default: usage_error("an option is unknown or lacks its value");
        }
    }
    for (size_t i = 0; i < sizeof ios / sizeof ios[0]; i++)
        if (strcmp(name, ios[i].name) == 0) io = &ios[i];
    spins = strcmp(wait, "spin") == 0;
    if (io == NULL) usage_error("--io is none of those known");
    if (!spins && strcmp(wait, "sleep") != 0) usage_error("--wait is neither spin nor sleep");
    if (sfu == NULL) usage_error("--sfu is missing");
    if (optind != argc) usage_error("there is an argument that belongs to no option");
    if (io->send == NULL && n_links != 0) usage_error("--link is for afpacket and afxdp alone");
    if (io->send != NULL && n_links == 0) usage_error("afpacket and afxdp need --link");
    parse_endpoint(sfu, &sfu_ip, &control_port);
}

static void print_counts(void) {
    const char *separator = "{";
#define PRINT(name)                                                                                \
    printf("%s\"" #name "\": %lu", separator, count.name);                                         \
    separator = ", ";
    COUNTERS(PRINT)
#undef PRINT
    puts("}");
}

int main(int argc, char **argv) {
    parse(argc, argv);
    struct sigaction action = {.sa_handler = stop};
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    open_control(sfu_ip, control_port);
    open_port = io->open_port;
    io->open();
    puts("ready");
    fflush(stdout);
    while (!is_stopped) {
        expire(now_s());
        if (!io->round() && !spins) wait_readable();
    }
    io->count_lost();
    print_counts();
    return 0;
}
