/* An AF_XDP socket in copy or zero-copy mode on queue 0 of an interface, with its umem, its
 * rings, and the XDP program that redirects every frame of the queue to it. A BPF link attaches
 * the program, so the kernel detaches it when the process ends. linux/if_xdp.h, linux/bpf.h. */
#ifndef XDP_H
#define XDP_H

#include <arpa/inet.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif
#ifndef SOL_XDP
#define SOL_XDP 283
#endif

/* Frames of 2 KiB. Half of them are in the fill ring for received packets, half are for copies. */
#define XDP_FRAME_BYTES 2048u
#define XDP_FRAMES 4096u
#define XDP_RING 2048u
/* The number of frames between two kicks, as many as the kernel sends in one call. */
#define XDP_TX_BATCH 32u

struct xdp_ring {
    _Atomic uint32_t *producer, *consumer, *flags;
    void *entries;
    uint32_t mask, cached;
};

struct xdp_socket {
    int fd;
    uint8_t *umem;
    struct xdp_ring rx, tx, fill, done;
    uint64_t spare[XDP_FRAMES]; /* last in, first out, so that frames stay in the cache */
    uint32_t n_spare, n_unkicked;
};

static inline void xdp_fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static inline int bpf(int command, union bpf_attr *attr) {
    return (int)syscall(SYS_bpf, command, attr, sizeof *attr);
}

/* Attaches the XDP program. It passes IPv4 datagrams without options to the kernel if they go to
 * the UDP port `passed_port` (in network order; 0: none). It redirects other frames to the
 * socket of their queue, and passes them if there is none. */
static inline void xdp_attach(struct xdp_socket *xdp, const char *interface, uint16_t passed_port) {
    union bpf_attr attr = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4,
                           .max_entries = 1};
    int map = bpf(BPF_MAP_CREATE, &attr);
    if (map < 0) xdp_fail("create an XSK map");
    struct bpf_insn program[] = {
        /* r2, r3 = context->data, data_end; r4 = the least end of a frame that has a port */
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = 0},
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 3, .src_reg = 1, .off = 4},
        {.code = BPF_ALU64 | BPF_MOV | BPF_X, .dst_reg = 4, .src_reg = 2},
        {.code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = 4, .imm = 38},
        {.code = BPF_JMP | BPF_JGT | BPF_X, .dst_reg = 4, .src_reg = 3, .off = 10},
        {.code = BPF_LDX | BPF_MEM | BPF_H, .dst_reg = 4, .src_reg = 2, .off = 12},
        {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 4, .off = 8, .imm = htons(0x0800)},
        {.code = BPF_LDX | BPF_MEM | BPF_B, .dst_reg = 4, .src_reg = 2, .off = 14},
        {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 4, .off = 6, .imm = 0x45},
        {.code = BPF_LDX | BPF_MEM | BPF_B, .dst_reg = 4, .src_reg = 2, .off = 23},
        {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 4, .off = 4, .imm = 17},
        {.code = BPF_LDX | BPF_MEM | BPF_H, .dst_reg = 4, .src_reg = 2, .off = 36},
        {.code = BPF_JMP | BPF_JNE | BPF_K, .dst_reg = 4, .off = 2, .imm = passed_port},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_EXIT},
        /* r2 = context->rx_queue_index */
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = 16},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map},
        {0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
    };
    uint32_t first = passed_port == 0 ? 15 : 0;
    memset(&attr, 0, sizeof attr);
    attr.prog_type = BPF_PROG_TYPE_XDP;
    attr.insns = (uintptr_t)(program + first);
    attr.insn_cnt = sizeof program / sizeof program[0] - first;
    attr.license = (uintptr_t) "GPL";
    int loaded = bpf(BPF_PROG_LOAD, &attr);
    if (loaded < 0) xdp_fail("load the XDP program");
    uint32_t key = 0;
    memset(&attr, 0, sizeof attr);
    attr.map_fd = (uint32_t)map;
    attr.key = (uintptr_t)&key;
    attr.value = (uintptr_t)&xdp->fd;
    if (bpf(BPF_MAP_UPDATE_ELEM, &attr) < 0) xdp_fail("put the socket into the XSK map");
    memset(&attr, 0, sizeof attr);
    attr.link_create.prog_fd = (uint32_t)loaded;
    attr.link_create.target_ifindex = if_nametoindex(interface);
    attr.link_create.attach_type = BPF_XDP;
    attr.link_create.flags = XDP_FLAGS_DRV_MODE;
    if (bpf(BPF_LINK_CREATE, &attr) < 0) xdp_fail("attach the XDP program");
}

static inline void xdp_map_ring(int fd, struct xdp_ring *ring, const struct xdp_ring_offset *at,
                                uint64_t page, size_t entry_bytes) {
    uint8_t *memory = mmap(NULL, at->desc + XDP_RING * entry_bytes, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_POPULATE, fd, (off_t)page);
    if (memory == MAP_FAILED) xdp_fail("map a ring");
    ring->producer = (_Atomic uint32_t *)(memory + at->producer);
    ring->consumer = (_Atomic uint32_t *)(memory + at->consumer);
    ring->flags = (_Atomic uint32_t *)(memory + at->flags);
    ring->entries = memory + at->desc;
    ring->mask = XDP_RING - 1;
    ring->cached = 0;
}

static inline void xdp_open_beside(struct xdp_socket *xdp, const char *interface,
                                   uint16_t passed_port) {
    xdp->fd = socket(AF_XDP, SOCK_RAW, 0);
    if (xdp->fd < 0) xdp_fail("open an AF_XDP socket");
    xdp->umem = mmap(NULL, (size_t)XDP_FRAMES * XDP_FRAME_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (xdp->umem == MAP_FAILED) xdp_fail("map the umem");
    struct xdp_umem_reg umem = {.addr = (uintptr_t)xdp->umem, .chunk_size = XDP_FRAME_BYTES,
                                .len = (uint64_t)XDP_FRAMES * XDP_FRAME_BYTES};
    int ring = XDP_RING;
    if (setsockopt(xdp->fd, SOL_XDP, XDP_UMEM_REG, &umem, sizeof umem) < 0 ||
        setsockopt(xdp->fd, SOL_XDP, XDP_UMEM_FILL_RING, &ring, sizeof ring) < 0 ||
        setsockopt(xdp->fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &ring, sizeof ring) < 0 ||
        setsockopt(xdp->fd, SOL_XDP, XDP_RX_RING, &ring, sizeof ring) < 0 ||
        setsockopt(xdp->fd, SOL_XDP, XDP_TX_RING, &ring, sizeof ring) < 0)
        xdp_fail("set up umem and rings");
    struct xdp_mmap_offsets offsets;
    socklen_t len = sizeof offsets;
    if (getsockopt(xdp->fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &len) < 0) xdp_fail("ring offsets");
    xdp_map_ring(xdp->fd, &xdp->rx, &offsets.rx, XDP_PGOFF_RX_RING, sizeof(struct xdp_desc));
    xdp_map_ring(xdp->fd, &xdp->tx, &offsets.tx, XDP_PGOFF_TX_RING, sizeof(struct xdp_desc));
    xdp_map_ring(xdp->fd, &xdp->fill, &offsets.fr, XDP_UMEM_PGOFF_FILL_RING, sizeof(uint64_t));
    xdp_map_ring(xdp->fd, &xdp->done, &offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, sizeof(uint64_t));
    xdp->n_unkicked = 0;
    xdp->n_spare = 0;
    for (uint32_t frame = 0; frame < XDP_FRAMES; frame++) {
        uint64_t address = (uint64_t)frame * XDP_FRAME_BYTES;
        if (frame < XDP_RING)
            ((uint64_t *)xdp->fill.entries)[frame] = address;
        else
            xdp->spare[xdp->n_spare++] = address;
    }
    xdp->fill.cached = XDP_RING;
    atomic_store_explicit(xdp->fill.producer, XDP_RING, memory_order_release);
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_ifindex = if_nametoindex(interface),
                                   .sxdp_queue_id = 0, .sxdp_flags = XDP_USE_NEED_WAKEUP};
    /* The socket of a process that has just ended holds the queue for some milliseconds. */
    for (int attempt = 0; bind(xdp->fd, (struct sockaddr *)&address, sizeof address) < 0; attempt++) {
        if (errno != EBUSY || attempt == 1000) xdp_fail("bind the AF_XDP socket");
        usleep(1000);
    }
    xdp_attach(xdp, interface, passed_port);
}

static inline void xdp_open(struct xdp_socket *xdp, const char *interface) {
    xdp_open_beside(xdp, interface, 0);
}

/* Takes back frames that the kernel has sent. */
static inline void xdp_reap(struct xdp_socket *xdp) {
    uint32_t end = atomic_load_explicit(xdp->done.producer, memory_order_acquire);
    uint32_t at = xdp->done.cached;
    for (; at != end; at++)
        xdp->spare[xdp->n_spare++] = ((uint64_t *)xdp->done.entries)[at & xdp->done.mask];
    xdp->done.cached = at;
    atomic_store_explicit(xdp->done.consumer, at, memory_order_release);
}

/* Makes the kernel send the waiting frames; returns false if it refuses to, as on a link that is
 * down. */
static inline bool xdp_kick(struct xdp_socket *xdp) {
    if (xdp->n_unkicked == 0) return true;
    atomic_store_explicit(xdp->tx.producer, xdp->tx.cached, memory_order_release);
    /* In copy mode the kernel sends in this call. */
    bool is_sent;
    while (!(is_sent = sendto(xdp->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) >= 0) &&
           (errno == EAGAIN || errno == EBUSY || errno == EINTR || errno == ENOBUFS))
        xdp_reap(xdp);
    xdp->n_unkicked = 0;
    xdp_reap(xdp);
    return is_sent;
}

/* Returns room for a frame that is to be sent. */
static inline uint8_t *xdp_frame(struct xdp_socket *xdp, uint64_t *address) {
    while (xdp->n_spare == 0) {
        xdp->n_unkicked += xdp->n_unkicked == 0;
        xdp_kick(xdp);
    }
    *address = xdp->spare[--xdp->n_spare];
    return xdp->umem + *address;
}

static inline void xdp_send(struct xdp_socket *xdp, uint64_t address, uint32_t len) {
    struct xdp_desc *entry = &((struct xdp_desc *)xdp->tx.entries)[xdp->tx.cached & xdp->tx.mask];
    *entry = (struct xdp_desc){.addr = address, .len = len};
    xdp->tx.cached++;
    if (++xdp->n_unkicked == XDP_TX_BATCH) xdp_kick(xdp);
}

/* Returns the next received frame, or NULL. */
static inline uint8_t *xdp_peek(struct xdp_socket *xdp, uint32_t *len) {
    if (atomic_load_explicit(xdp->rx.producer, memory_order_acquire) == xdp->rx.cached) return NULL;
    struct xdp_desc *entry = &((struct xdp_desc *)xdp->rx.entries)[xdp->rx.cached & xdp->rx.mask];
    *len = entry->len;
    return xdp->umem + entry->addr;
}

/* Gives the frame of `xdp_peek` back to the fill ring. */
static inline void xdp_release(struct xdp_socket *xdp) {
    struct xdp_desc *entry = &((struct xdp_desc *)xdp->rx.entries)[xdp->rx.cached & xdp->rx.mask];
    uint64_t address = entry->addr & ~(uint64_t)(XDP_FRAME_BYTES - 1);
    xdp->rx.cached++;
    atomic_store_explicit(xdp->rx.consumer, xdp->rx.cached, memory_order_release);
    ((uint64_t *)xdp->fill.entries)[xdp->fill.cached & xdp->fill.mask] = address;
    xdp->fill.cached++;
    atomic_store_explicit(xdp->fill.producer, xdp->fill.cached, memory_order_release);
}

#endif
