/* Frames on the wire, as pktswitch, load and meter read and write them: Ethernet II, IPv4
 * without options, UDP. RFC 791, 768, 1624. */
#ifndef WIRE_H
#define WIRE_H

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define UDP_BYTES 8
#define HEADER_BYTES (ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES)
#define FRAME_BYTES_MAX 1514

/* All headers before the payload. Fields are in network order. */
struct header {
    uint8_t dst_mac[6], src_mac[6];
    uint16_t ether_type;
    uint8_t version_ihl, tos;
    uint16_t total_len, id, fragment;
    uint8_t ttl, protocol;
    uint16_t ip_checksum;
    uint32_t src_ip, dst_ip;
    uint16_t src_port, dst_port, udp_len, udp_checksum;
} __attribute__((packed));

_Static_assert(sizeof(struct header) == HEADER_BYTES, "the header has no holes");

/* Folds a sum of 16-bit words to 16 bits (RFC 1071). */
static inline uint16_t fold(uint32_t sum) {
    sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

static inline uint32_t words_of_u32(uint32_t value) { return (value & 0xffff) + (value >> 16); }

/* The checksum after the words with the sum `removed` were replaced by words with the sum
 * `added` (RFC 1624, equation 3). */
static inline uint16_t updated_checksum(uint16_t checksum, uint32_t removed, uint32_t added) {
    uint32_t sum = (uint16_t)~checksum;
    sum += (uint16_t)~fold(removed);
    sum += fold(added);
    return (uint16_t)~fold(sum);
}

static inline uint16_t ip_checksum_of(const struct header *header) {
    const uint8_t *bytes = (const uint8_t *)header + ETHERNET_BYTES;
    uint32_t sum = 0;
    for (int at = 0; at < IPV4_BYTES; at += 2) {
        uint16_t word;
        memcpy(&word, bytes + at, 2);
        sum += word;
    }
    return (uint16_t)~fold(sum);
}

/* The UDP checksum of a whole frame, whose udp_checksum must be 0. If it is not, the result is
 * 0xffff when the checksum is right. */
static inline uint16_t udp_checksum_of(const struct header *header) {
    uint32_t udp_len = ntohs(header->udp_len);
    uint32_t sum = words_of_u32(header->src_ip) + words_of_u32(header->dst_ip) +
                   htons(header->protocol) + header->udp_len;
    const uint8_t *bytes = (const uint8_t *)header + ETHERNET_BYTES + IPV4_BYTES;
    for (uint32_t at = 0; at + 1 < udp_len; at += 2) {
        uint16_t word;
        memcpy(&word, bytes + at, 2);
        sum += word;
    }
    if (udp_len % 2 != 0) sum += htons((uint16_t)(bytes[udp_len - 1] << 8));
    uint16_t checksum = (uint16_t)~fold(sum);
    return checksum == 0 ? 0xffff : checksum;
}

static inline void parse_mac(const char *text, uint8_t mac[6]) {
    if (sscanf(text, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", &mac[0], &mac[1], &mac[2], &mac[3], &mac[4],
               &mac[5]) != 6) {
        fprintf(stderr, "expected a MAC address, found \"%s\"\n", text);
        exit(2);
    }
}

/* Parses ADDRESS:PORT; the results are in network order. */
static inline void parse_endpoint(const char *text, uint32_t *ip, uint16_t *port) {
    char address[16];
    unsigned number = 0;
    if (sscanf(text, "%15[0-9.]:%u", address, &number) != 2 || number == 0 || number > 65535 ||
        inet_pton(AF_INET, address, ip) != 1) {
        fprintf(stderr, "expected ADDRESS:PORT, found \"%s\"\n", text);
        exit(2);
    }
    *port = htons((uint16_t)number);
}

#endif
