// A selective forwarding unit for hosts that each have their own switch port. Every host's stream goes to all other
// hosts: one multicast group lists every host's port, and egress drops the copy to the sender. The program follows P.
// Tsikrikas and G. Xylomenos, "A Selective Forwarding Unit Implementation in P4", in the scenario with one stream.
//
//   checks -> low quality? -> multicast group -> replica i: not the sender's port? -> leaves
//                `-> route -> leaves
//
// A copy is identical to the packet. So streams are sent to an address that every host accepts: an
// IP multicast group or broadcast. With another destination, a host has to read raw frames, as in
// the paper, or to rewrite the Ethernet and IPv4 destination and the UDP checksum itself.

#include <core.p4>
#include <v1model.p4>
#include "lib/headers.p4"
#include "lib/verdict.p4"

struct metadata_t {
    verdict_t verdict;
}

#include "lib/udp_parser.p4"
#include "lib/ipv4_check.p4"
#include "lib/routes.p4"
#include "lib/stream_quality.p4"

control SfuIngress(
    inout udp_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    Ipv4Check() ipv4_check;
    Routes() routes;
    VerdictCount() verdict_count;

    action multicast_lq() { standard_metadata.mcast_grp = LOW_QUALITY_GROUP; }

    apply {
        ipv4_check.apply(hdr, meta.verdict, standard_metadata);
        if (meta.verdict == verdict_t.SERVE) {
            if (hdr.udp.isValid() && hdr.udp.dst_port == LOW_QUALITY_PORT) {
                multicast_lq();
            } else {
                routes.apply(hdr, meta.verdict, standard_metadata);
            }
        }
        verdict_count.apply(meta.verdict, standard_metadata);
    }
}

control SfuEgress(
    inout udp_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    action drop() { mark_to_drop(standard_metadata); }

    apply {
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            drop();
        }
    }
}

V1Switch(
    UdpParser(),
    Ipv4Verification(),
    SfuIngress(),
    SfuEgress(),
    NoComputation(),
    UdpDeparser()
) main;
