// Authenticated ordered multicast with signatures (AOM-PK), after NeoBFT (G. Sun et al., SIGCOMM 2023). The switch
// stamps each request to a group of receivers with an epoch and a sequence number, and sends the request by a port to
// the coprocessor (reprise-signer). The coprocessor links the packet to the previous packet, signs this packet or a
// later one, and sends the packet back; every receiver then gets one copy. docs/aom.md has the guarantees.
//
//   request -> stamp -> signer's port -> reprise-signer
//              receiver group -> receiver j's address <- signer's port <--'

#include <core.p4>
#include <v1model.p4>
#include "lib/aom_headers.p4"

const bool AOM_CHAINED = true;

struct metadata_t {
    aom_verdict_t verdict;
    bool is_signed; // the packet came back from the signer
    group_t signer; // the group of one copy, to the signer's port
    group_t receivers;
}

#include "lib/aom_parser.p4"
#include "lib/aom_sequencer.p4"
#include "lib/aom_receivers.p4"
#include "lib/stations.p4"

control AomIngress(
    inout aom_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    AomSequencer() sequencer;
    Stations() stations;

    action deliver(group_t receiver_group) {
        meta.is_signed = true;
        standard_metadata.mcast_grp = receiver_group;
    }

    // The controller writes the port from which a group's signed packets come back. A miss means that the packet does
    // not come from the signer, so its stamp proves nothing.
    table signers {
        key = {
            standard_metadata.ingress_port: exact @name("port");
            hdr.aom.group: exact @name("group");
        }
        actions = { deliver; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 1024;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            standard_metadata.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else if (hdr.udp.isValid() && hdr.udp.dst_port == AOM_UDP_PORT) {
            if (hdr.chained.isValid() && hdr.aom.kind == AOM_SIGNED) {
                signers.apply();
            }
            if (!meta.is_signed) {
                sequencer.apply(
                    hdr,
                    meta.verdict,
                    meta.signer,
                    meta.receivers,
                    standard_metadata
                );
                if (meta.verdict == aom_verdict_t.STAMPED) {
                    hdr.aom.kind = AOM_SIGNED;
                    hdr.udp.checksum = 0;
                    hdr.chained.signature = 0;
                    hdr.chained.link = 0;
                    standard_metadata.mcast_grp = meta.signer;
                }
            }
        } else {
            stations.apply(hdr.ethernet, standard_metadata);
        }
    }
}

control AomEgress(
    inout aom_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    AomReceivers() receivers;

    apply {
        if (standard_metadata.instance_type == INSTANCE_REPLICA) {
            if (meta.is_signed) {
                receivers.apply(hdr, standard_metadata);
            } else if (
                !hdr.chained.isValid()
                && standard_metadata.egress_port == standard_metadata.ingress_port
            ) {
                mark_to_drop(standard_metadata);
            }
        }
    }
}

control NoComputation(inout aom_headers_t hdr, inout metadata_t meta) {
    apply { }
}

V1Switch(
    AomParser(),
    NoComputation(),
    AomIngress(),
    AomEgress(),
    NoComputation(),
    AomDeparser()
) main;
