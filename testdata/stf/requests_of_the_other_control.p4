// recirculate called in ingress is done at the end of egress, unless the packet is dropped or multicast; resubmit
// called in egress is never done; a clone is of the control that asks for it, whatever type it names
// (simple_switch's flags of a packet).
header data_t {
    bit<8> what;
    bit<8> rounds;
    bit<8> instance_type;
    bit<8> kept;
}
struct headers_t { data_t data; }
struct metadata_t {
    @field_list(1) bit<8> kept;
}
#include "include/one_header.p4"

INGRESS {
    apply {
        standard_metadata.egress_spec = 3;
        meta.kept = meta.kept + 1;
        hdr.data.instance_type = (bit<8>) standard_metadata.instance_type;
        hdr.data.kept = meta.kept;
        if (hdr.data.what < 4 && hdr.data.rounds != 0) {
            hdr.data.rounds = hdr.data.rounds - 1;
            recirculate_preserving_field_list(1);
            if (hdr.data.what == 1) { mark_to_drop(standard_metadata); }
            if (hdr.data.what == 2) { standard_metadata.mcast_grp = 7; }
        }
        if (hdr.data.what == 4) { clone_preserving_field_list(CloneType.E2E, 5, 1); }
    }
}

EGRESS {
    apply {
        if (standard_metadata.instance_type == 1 || standard_metadata.instance_type == 2) {
            hdr.data.instance_type = 0xc0 + (bit<8>) standard_metadata.instance_type;
        } else {
            if (hdr.data.what == 3) { resubmit_preserving_field_list(1); }
            if (hdr.data.what == 5) { clone_preserving_field_list(CloneType.I2E, 5, 1); }
        }
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
