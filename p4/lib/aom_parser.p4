// Parses AOM's headers, and emits them. A program must define `AOM_CHAINED` and its `metadata_t`,
// which this file does not use, before it includes this file.
#ifndef AOM_PARSER_P4
#define AOM_PARSER_P4

#include <core.p4>
#include <v1model.p4>
#include "aom_headers.p4"

// A packet that is no whole datagram to AOM's port is parsed up to the last header it has.
parser AomParser(
    packet_in packet,
    out aom_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    state start {
        transition select(standard_metadata.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition accept;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHER_TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(
            hdr.ipv4.version,
            hdr.ipv4.ihl,
            hdr.ipv4.more_fragments,
            hdr.ipv4.fragment_offset,
            hdr.ipv4.protocol
        ) {
            (4, 5, 0, 0, PROTOCOL_UDP): parse_udp;
            default: accept;
        }
    }
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            AOM_UDP_PORT: parse_aom;
            default: accept;
        }
    }
    state parse_aom {
        packet.extract(hdr.aom);
        // A request has the same headers as the packets that the switch makes from it.
        transition select(hdr.aom.kind, AOM_CHAINED) {
            (AOM_REQUEST, false): parse_tags;
            (AOM_TAGGED, false): parse_tags;
            (AOM_REQUEST, true): parse_chained;
            (AOM_SIGNED, true): parse_chained;
            default: accept;
        }
    }
    state parse_chained {
        packet.extract(hdr.chained);
        transition accept;
    }
    state parse_tags {
        packet.extract(hdr.tags);
        transition accept;
    }
}

control AomDeparser(packet_out packet, in aom_headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.aom);
        packet.emit(hdr.tags);
        packet.emit(hdr.chained);
    }
}

#endif
