// A selective forwarding unit for hosts that each have their own switch port and send 2 qualities. Low quality goes to
// all other hosts. High quality goes to the hosts whose ports its multicast group lists (half of the hosts in the
// paper). Everything else is as in sfu_multicast_one_stream.p4, which names the paper; this program is the paper's
// scenario with two streams.
//
//   checks -> low or high quality? -> its multicast group -> replica i: not the sender's port? -> leaves
//                `-> route -> leaves

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

    action multicast_hq() { standard_metadata.mcast_grp = HIGH_QUALITY_GROUP; }

    apply {
        ipv4_check.apply(hdr, meta.verdict, standard_metadata);
        if (meta.verdict == verdict_t.SERVE) {
            if (hdr.udp.isValid() && hdr.udp.dst_port == LOW_QUALITY_PORT) {
                multicast_lq();
            } else if (hdr.udp.isValid() && hdr.udp.dst_port == HIGH_QUALITY_PORT) {
                multicast_hq();
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
