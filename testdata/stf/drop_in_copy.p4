// mark_to_drop on a copy of the standard metadata: an inout argument of an action and a variable.
// The packet is dropped where the copy comes back, and lives where it does not.
#include <core.p4>
#include <v1model.p4>

header pkt_t {
    bit<8> kind;
}

struct headers_t {
    pkt_t pkt;
}

struct metadata_t { }

parser PktParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.pkt);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

action give_up(inout standard_metadata_t any) {
    mark_to_drop(any);
}

control PktIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    standard_metadata_t copy;

    action send() { }
    table kinds {
        key = { hdr.pkt.kind: exact; }
        actions = { send; give_up(standard_metadata); }
        const default_action = give_up(standard_metadata);
        const entries = {
            1: send();
            2: give_up(standard_metadata);
            4: send();
            5: send();
        }
    }
    apply {
        standard_metadata.egress_spec = 3;
        standard_metadata.mcast_grp = 1;
        kinds.apply();
        if (hdr.pkt.kind == 4 || hdr.pkt.kind == 5) {
            copy = standard_metadata;
            give_up(copy);
            if (hdr.pkt.kind == 5) {
                standard_metadata = copy;
            }
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control PktDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(PktParser(), NoChecksum(), PktIngress(), NoEgress(), NoChecksum(), PktDeparser()) main;
