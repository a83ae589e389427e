// A selective forwarding unit (SFU) that uses the replication engine. A multicast group lists each viewer's port with a
// different instance, so the engine makes all copies at once, and a copy's instance tells which viewer it is for.
// Viewers may be on any port on which the SFU has an address of its own. No packet recirculates.
//
//   arrival -> stream -> multicast group -> replica i: port's and viewer's address -> leaves

#include <core.p4>
#include <v1model.p4>
#include "lib/headers.p4"
#include "lib/verdict.p4"

struct metadata_t {
    verdict_t verdict;
    mac_address_t own_mac;
    group_t group;
}

#include "lib/header_parser.p4"
#include "lib/arrival.p4"
#include "lib/neighbour.p4"
#include "lib/answer.p4"
#include "lib/presenter.p4"
#include "lib/port_address.p4"
#include "lib/viewer_address.p4"

control SfuIngress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    Arrival() arrival;
    HeardNeighbours() heard_neighbours;
    StreamLookup() stream_lookup;
    VerdictCount() verdict_count;
    Answer() answer;
    PacketOut() packet_out;
    TtlDecrement() ttl_decrement;

    apply {
        if (hdr.packet_out.isValid()) {
            packet_out.apply(hdr, standard_metadata);
        } else {
            arrival.apply(hdr, meta.verdict, meta.own_mac, standard_metadata);
            heard_neighbours.apply(hdr, standard_metadata);
            if (meta.verdict == verdict_t.SERVE) {
                stream_lookup.apply(hdr, meta.verdict, meta.group);
            }
            verdict_count.apply(meta.verdict, standard_metadata);
            answer.apply(hdr, meta.verdict, meta.own_mac, standard_metadata);
            if (meta.verdict == verdict_t.SERVE) {
                hdr.ethernet.src_addr = meta.own_mac;
                ttl_decrement.apply(hdr.ipv4);
                standard_metadata.mcast_grp = meta.group;
            }
        }
    }
}

control SfuEgress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    PortAddress() port_address;
    ViewerAddress() viewer_address;

    apply {
        if (standard_metadata.instance_type == INSTANCE_REPLICA) {
            if (standard_metadata.egress_port != standard_metadata.ingress_port) {
                port_address.apply(hdr, standard_metadata);
            }
            viewer_address.apply(hdr, meta.group, standard_metadata);
        }
    }
}

V1Switch(
    HeaderParser(),
    HeaderVerification(),
    SfuIngress(),
    SfuEgress(),
    NoComputation(),
    HeaderDeparser()
) main;
