/* The part of pktswitch that AF_PACKET and AF_XDP share, on which it reads and writes whole
 * frames: it checks frames as the kernel does for a socket, answers messages, and writes the
 * headers of copies. */
#ifndef FRAMES_H
#define FRAMES_H

#include "io.h"

#define TTL 64

/* The header of the copies of one packet, without the fields that differ between viewers. */
static struct {
    struct header header;
    uint32_t ip_sum;
    uint16_t udp_checksum;
    uint32_t removed, added;
} rewrite;

static void write_own_header(struct header *header, uint16_t udp_len, uint16_t src_port) {
    header->ether_type = htons(ETH_P_IP);
    header->version_ihl = 0x45;
    header->tos = 0;
    header->total_len = htons((uint16_t)(IPV4_BYTES + udp_len));
    header->id = 0;
    header->fragment = htons(0x4000); /* not a fragment, and must not be fragmented: RFC 6864, section 4 */
    header->ttl = TTL;
    header->protocol = IPPROTO_UDP;
    header->ip_checksum = 0;
    header->src_ip = sfu_ip;
    header->src_port = src_port;
    header->udp_len = htons(udp_len);
}

static void prepare(const struct header *came) {
    struct header *header = &rewrite.header;
    *header = *came;
    header->dst_ip = 0;
    write_own_header(header, ntohs(came->udp_len), came->dst_port);
    rewrite.ip_sum = (uint16_t)~ip_checksum_of(header);
    rewrite.udp_checksum = came->udp_checksum;
    rewrite.removed = words_of_u32(came->src_ip) + words_of_u32(came->dst_ip) + came->src_port +
                      came->dst_port;
    rewrite.added = words_of_u32(sfu_ip) + came->dst_port;
}

static inline void write_copy(struct header *copy, const struct viewer *viewer) {
    *copy = rewrite.header;
    memcpy(copy, viewer->macs, sizeof viewer->macs);
    copy->dst_ip = viewer->ip;
    copy->dst_port = viewer->udp_port;
    copy->ip_checksum = (uint16_t)~fold(rewrite.ip_sum + words_of_u32(viewer->ip));
    /* RFC 768: a checksum of zero is sent as all ones; zero means that the sender computed none. */
    if (rewrite.udp_checksum != 0) {
        uint16_t checksum = updated_checksum(rewrite.udp_checksum, rewrite.removed,
                                             rewrite.added + viewer->words);
        copy->udp_checksum = checksum == 0 ? 0xffff : checksum;
    }
}

static bool is_host(uint32_t ip) {
    uint8_t first = (uint8_t)(ntohl(ip) >> 24);
    return first != 0 && first != 127 && first < 224 && ip != sfu_ip;
}

/* Whether a frame has a datagram that the kernel would give to a socket of the SFU. Counts why
 * not. */
static bool is_datagram(const struct link *link, const struct header *header, uint32_t len) {
    uint64_t *dropped = NULL;
    uint16_t total_len = ntohs(header->total_len), udp_len = ntohs(header->udp_len);
    if (len < HEADER_BYTES || header->ether_type != htons(ETH_P_IP) ||
        memcmp(header->dst_mac, link->mac, 6) != 0 || header->protocol != IPPROTO_UDP ||
        header->dst_ip != sfu_ip)
        dropped = &count.not_ours;
    else if (header->version_ihl > 0x45 && header->version_ihl <= 0x4f)
        dropped = &count.ip_options;
    else if (header->version_ihl != 0x45 || total_len > len - ETHERNET_BYTES ||
             total_len < IPV4_BYTES + UDP_BYTES || ip_checksum_of(header) != 0 ||
             !is_host(header->src_ip) || (header->src_mac[0] & 1) != 0)
        dropped = &count.malformed;
    else if ((header->fragment & htons(0x3fff)) != 0)
        dropped = &count.fragments;
    else if (udp_len < UDP_BYTES || udp_len > total_len - IPV4_BYTES)
        dropped = &count.malformed;
    else if (udp_len > UDP_BYTES + PAYLOAD_BYTES_MAX)
        dropped = &count.too_long;
    if (dropped != NULL) ++*dropped;
    return dropped == NULL;
}

static void answer_frame(uint16_t link, const struct header *came) {
    /* A packet's checksum is not checked here: a viewer notices an error, since copies are
     * updated from it. A message's is checked, because a message goes no further. Over a
     * datagram whose checksum is right, the sum is zero. */
    if (came->udp_checksum != 0 && udp_checksum_of(came) != 0xffff) {
        count.malformed++;
        return;
    }
    struct viewer from = {.ip = came->src_ip,
                          .udp_port = came->src_port,
                          .words = words_of_u32(came->src_ip) + came->src_port,
                          .link = link};
    memcpy(from.macs, came->src_mac, 6);
    memcpy(from.macs + 6, links[link].mac, 6);
    struct {
        struct header header;
        uint8_t payload[ANSWER_BYTES_MAX];
    } __attribute__((packed)) reply;
    const uint8_t *message = (const uint8_t *)(came + 1);
    uint32_t message_len = ntohs(came->udp_len) - UDP_BYTES;
    count_lost_if_asked(message, message_len);
    uint32_t len = answer_message(message, message_len, &from, now_s(), reply.payload);
    if (len == 0) return;
    write_own_header(&reply.header, (uint16_t)(UDP_BYTES + len), control_port);
    memcpy(&reply.header, from.macs, sizeof from.macs);
    reply.header.dst_ip = from.ip;
    reply.header.dst_port = from.udp_port;
    reply.header.ip_checksum = ip_checksum_of(&reply.header);
    reply.header.udp_checksum = 0;
    reply.header.udp_checksum = udp_checksum_of(&reply.header);
    io->send(&from, (const uint8_t *)&reply, HEADER_BYTES + len);
}

static void take_frame(uint16_t link, const uint8_t *frame, uint32_t len) {
    const struct header *header = (const struct header *)frame;
    if (!is_datagram(&links[link], header, len)) return;
    if (header->dst_port == control_port) {
        answer_frame(link, header);
        return;
    }
    const struct stream *stream =
        stream_slot(header->src_ip, header->src_port, header->dst_port);
    if (stream->viewers == NULL) {
        count.no_stream++;
        return;
    }
    count.packets++;
    prepare(header);
    io->fan_out(stream, frame + HEADER_BYTES, ntohs(header->udp_len) - UDP_BYTES);
}

static bool has_every_port(uint32_t place, uint16_t udp_port) {
    (void)place, (void)udp_port;
    return true;
}

#endif
