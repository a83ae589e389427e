// Headers of authenticated ordered multicast (docs/aom.md, "On the wire").
#ifndef AOM_HEADERS_P4
#define AOM_HEADERS_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "half_siphash.p4"

const udp_port_t AOM_UDP_PORT = 60004;

// What the switch does with a datagram to the sequencer.
enum bit<8> aom_verdict_t {
    STAMPED = 0,
    DROP_TRUNCATED = 1, // ends inside a header
    DROP_NOT_A_REQUEST = 2, // not a request: a packet that claims to be stamped already
    DROP_UNKNOWN_GROUP = 3,
    DROP_INACTIVE = 4, // the controller has stopped the group, for example between two epochs
    DROP_EXHAUSTED = 5 // the epoch's last sequence number is used
}

// The kinds of datagrams to `AOM_UDP_PORT`.
const bit<8> AOM_REQUEST = 1; // from a sender: group and digest, everything else 0
const bit<8> AOM_TAGGED = 2; // from the sequencer, with four tags: AOM-HM
const bit<8> AOM_SIGNED = 3; // from the coprocessor, with signature and link: AOM-PK

// A tag covers four words: the low 8 bits of the epoch with shard and group; the sequence number;
// the two halves of the digest. Each epoch has its own keys, so the tag need not cover the epoch's
// other bits.
header aom_t {
    bit<8> kind;
    bit<32> epoch;
    bit<8> shard; // receivers 4 * shard .. 4 * shard + 3
    bit<16> group;
    bit<32> sequence; // from 1 on in each epoch
    bit<64> digest; // the first 8 bytes of SHA-256(message)
}

header aom_tags_t {
    tag_t tag0;
    tag_t tag1;
    tag_t tag2;
    tag_t tag3;
}

// Written by the coprocessor. A signature of zeros means that the packet is not signed.
header aom_chained_t {
    bit<512> signature;
    bit<256> link; // the hash chain's state at the previous packet
}

struct aom_headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    aom_t aom;
    aom_tags_t tags;
    aom_chained_t chained;
}

#endif
