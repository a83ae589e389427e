/* A hand-written SFU in XDP, with which the P4 program's kernel engine is compared. It broadcasts a
 * packet of a stream to the group's device map, whose program gives each copy the addresses of its
 * viewer.
 *
 *   frame -> relay: finds the stream, lowers the TTL, writes a note in front of the frame, broadcasts
 *         -> copy_out, for each copy: finds its place, writes addresses and checksums -> device
 *
 * Each version of a group has a slot of its own, and a stream's entry names the slot. Therefore
 * all copies of a packet are made by one version. Frames that are not for the relay pass on to
 * the host. */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "relay.h"

/* The note in front of the frame. Each copy has it, too. */
struct note {
    __u32 slot, serial;
};

/* The place of a processor's last copy: copies of one packet come one after the other. */
struct position {
    __u32 serial, place;
};

const volatile struct own own;

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct stream);
    __type(value, __u32);
    __uint(max_entries, STREAMS_MAX);
} streams SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
    __type(key, __u32);
    __uint(max_entries, SLOTS);
    __array(values, struct {
        __uint(type, BPF_MAP_TYPE_DEVMAP);
        __uint(key_size, sizeof(__u32));
        __uint(value_size, sizeof(struct bpf_devmap_val));
        __uint(max_entries, 1);
    });
} groups SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __type(key, struct place);
    __type(value, struct viewer);
    __uint(max_entries, COPIES_MAX);
} viewers SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __type(key, struct place);
    __type(value, struct counted);
    __uint(max_entries, COPIES_MAX);
} copies SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, __u32);
    __uint(max_entries, 1);
} serials SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, struct position);
    __uint(max_entries, 1);
} positions SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __type(key, __u32);
    __type(value, struct counted);
    __uint(max_entries, N_DROPS);
} drops SEC(".maps");

struct headers {
    struct ethhdr ethernet;
    struct iphdr ip;
    struct udphdr udp;
} __attribute__((packed));

static __always_inline __u16 fold(__u32 sum) {
    sum = (sum & 0xffff) + (sum >> 16);
    return (__u16)((sum & 0xffff) + (sum >> 16));
}

static __always_inline __u32 words(__be32 value) { return (value & 0xffff) + (value >> 16); }

/* RFC 1624, equation 3. */
static __always_inline __u16 updated(__u16 checksum, __u32 removed, __u32 added) {
    return (__u16)~fold((__u16)~checksum + (__u16)~fold(removed) + fold(added));
}

static __always_inline __u16 sum_of(const void *ip) {
    const __u16 *word = ip;
    __u32 sum = 0;
#pragma unroll
    for (int i = 0; i < 10; i++) sum += word[i];
    return fold(sum);
}

static __always_inline void count(void *map, const void *key, __u64 bytes) {
    struct counted *counted = bpf_map_lookup_elem(map, key);
    if (counted == NULL) return;
    counted->packets++;
    counted->bytes += bytes;
}

static __always_inline int drop(enum drop why, __u64 bytes) {
    __u32 key = why;
    count(&drops, &key, bytes);
    return XDP_DROP;
}

static __always_inline bool is_own_mac(const __u8 *mac) {
    bool is_own = true;
#pragma unroll
    for (int i = 0; i < ETH_ALEN; i++) is_own &= mac[i] == own.mac[i];
    return is_own;
}

static __always_inline bool is_ours(const struct headers *hdr) {
    return hdr->ethernet.h_proto == bpf_htons(ETH_P_IP) && hdr->ip.protocol == IPPROTO_UDP &&
           hdr->ip.ihl == 5 && hdr->ip.daddr == own.ip && is_own_mac(hdr->ethernet.h_dest);
}

/* Whether a frame has a complete datagram, not a fragment, with a right header checksum and
 * lengths. */
static __always_inline bool is_sound(const struct headers *hdr, __u64 bytes) {
    __u32 ip_bytes = bpf_ntohs(hdr->ip.tot_len), udp_bytes = bpf_ntohs(hdr->udp.len);
    return hdr->ip.version == 4 && sum_of(&hdr->ip) == 0xffff &&
           (hdr->ip.frag_off & bpf_htons(0xbfff)) == 0 && udp_bytes >= sizeof hdr->udp &&
           ip_bytes == sizeof hdr->ip + udp_bytes && bytes >= sizeof hdr->ethernet + ip_bytes;
}

SEC("xdp")
int relay(struct xdp_md *context) {
    struct headers *hdr = (void *)(long)context->data;
    void *end = (void *)(long)context->data_end;
    if ((void *)(hdr + 1) > end || !is_ours(hdr)) return XDP_PASS;
    __u64 bytes = end - (void *)hdr;
    if (!is_sound(hdr, bytes)) return drop(MALFORMED, bytes);
    if (hdr->ip.ttl <= 1) return drop(TTL_IS_OVER, bytes);
    struct stream stream = {.sender_ip = hdr->ip.saddr, .port = hdr->udp.dest};
    __u32 *slot = bpf_map_lookup_elem(&streams, &stream), zero = 0;
    if (slot == NULL) return drop(NO_STREAM, bytes);
    __u32 *serial = bpf_map_lookup_elem(&serials, &zero), group = *slot;
    void *devices = bpf_map_lookup_elem(&groups, &group);
    if (serial == NULL || devices == NULL) return drop(NO_VIEWER, bytes);
    /* TTL and protocol share a 16-bit word of the checksum. */
    __u16 before = *(__u16 *)&hdr->ip.ttl;
    hdr->ip.ttl--;
    hdr->ip.check = updated(hdr->ip.check, before, *(__u16 *)&hdr->ip.ttl);
    if (bpf_xdp_adjust_meta(context, -(int)sizeof(struct note)) != 0) return drop(NO_VIEWER, bytes);
    struct note *note = (void *)(long)context->data_meta;
    if ((void *)(note + 1) > (void *)(long)context->data) return XDP_ABORTED;
    note->slot = group;
    note->serial = ++*serial;
    return bpf_redirect_map(devices, 0, BPF_F_BROADCAST);
}

SEC("xdp/devmap")
int copy_out(struct xdp_md *context) {
    struct headers *hdr = (void *)(long)context->data;
    void *end = (void *)(long)context->data_end;
    struct note *note = (void *)(long)context->data_meta;
    if ((void *)(note + 1) > (void *)hdr || (void *)(hdr + 1) > end) return XDP_ABORTED;
    __u64 bytes = end - (void *)hdr;
    __u32 zero = 0;
    struct position *at = bpf_map_lookup_elem(&positions, &zero);
    if (at == NULL) return XDP_ABORTED;
    at->place = at->serial == note->serial ? at->place + 1 : 0;
    at->serial = note->serial;
    struct place place = {.slot = note->slot, .place = at->place};
    struct viewer *viewer = bpf_map_lookup_elem(&viewers, &place);
    if (viewer == NULL) return drop(NO_VIEWER, bytes);
    /* The copy's source is the packet's destination. So in the checksums only the sender's
     * address and port are replaced, by the viewer's. */
    __u32 removed = words(hdr->ip.saddr), added = words(viewer->ip);
    __be16 removed_port = hdr->udp.source, added_port = viewer->port;
    __builtin_memcpy(hdr->ethernet.h_source, hdr->ethernet.h_dest, ETH_ALEN);
    __builtin_memcpy(hdr->ethernet.h_dest, viewer->mac, ETH_ALEN);
    hdr->ip.check = updated(hdr->ip.check, removed, added);
    hdr->ip.saddr = hdr->ip.daddr;
    hdr->ip.daddr = viewer->ip;
    hdr->udp.source = hdr->udp.dest;
    hdr->udp.dest = added_port;
    if (hdr->udp.check != 0) {
        __u16 checksum = updated(hdr->udp.check, removed + removed_port, added + added_port);
        hdr->udp.check = checksum == 0 ? 0xffff : checksum;
    }
    count(&copies, &place, bytes);
    return XDP_PASS;
}

char _license[] SEC("license") = "GPL";
