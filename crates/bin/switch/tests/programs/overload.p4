// Lets a flood burden a switch in several ways: the first byte of a frame says in which way. With PRIORITIES the
// program gives frames priorities, so that the switch looks at frames before their turn.
#include <core.p4>
#include <v1model.p4>

const bit<8> TO_THE_GROUP = 0;
const bit<8> FOR_EVER = 1;
const bit<8> TO_THE_CPU = 2;
const bit<8> NOWHERE = 3;

header kind_t {
    bit<8> kind;
}

struct headers_t {
    kind_t kind;
}

struct metadata_t {
    @field_list(0)
    bit<1> goes_on;
}

parser start_parser(packet_in packet, out headers_t headers, inout metadata_t metadata,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(headers.kind);
        transition accept;
    }
}

control no_checksum(inout headers_t headers, inout metadata_t metadata) {
    apply {}
}

control ingress(inout headers_t headers, inout metadata_t metadata,
                inout standard_metadata_t standard_metadata) {
    action note() {
        metadata.goes_on = 1;
    }
    table seen {
        key = { headers.kind.kind : exact; }
        actions = { note; NoAction; }
        const default_action = NoAction();
        support_timeout = true;
        size = 16;
    }
    apply {
        seen.apply();
        if (headers.kind.kind == TO_THE_GROUP) {
            standard_metadata.mcast_grp = 1;
#ifdef PRIORITIES
            standard_metadata.priority = 1;
#endif
        } else if (headers.kind.kind == FOR_EVER) {
            standard_metadata.egress_spec = 3;
        } else if (headers.kind.kind == TO_THE_CPU) {
            standard_metadata.egress_spec = 254;
#ifdef PRIORITIES
            standard_metadata.priority = 7;
#endif
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

control egress(inout headers_t headers, inout metadata_t metadata,
               inout standard_metadata_t standard_metadata) {
    apply {
        if (headers.kind.kind == FOR_EVER) {
            clone_preserving_field_list(CloneType.E2E, 1, 0);
            recirculate_preserving_field_list(0);
        }
    }
}

control deparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers.kind);
    }
}

V1Switch(start_parser(), no_checksum(), ingress(), egress(), no_checksum(), deparser()) main;
