// truncate cuts the packet that asked for it, and only where it leaves: its clones, its replicas and itself on the way
// back to ingress are whole, as in BMv2 (`Packet::truncate`).
header data_t {
    bit<8> how;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        if (standard_metadata.instance_type == 0) {
            if (hdr.data.how < 4) {
                truncate(3);
            }
            if (hdr.data.how == 1) {
                clone(CloneType.I2E, 5);
            } else if (hdr.data.how == 2 || hdr.data.how == 6) {
                standard_metadata.mcast_grp = 1;
            } else if (hdr.data.how == 3) {
                resubmit_preserving_field_list(0);
            }
        }
    }
}

EGRESS {
    apply {
        if (standard_metadata.instance_type == 0 || hdr.data.how == 6) {
            if (hdr.data.how >= 4 && hdr.data.how < 8) {
                truncate(3);
            }
            if (hdr.data.how == 4) {
                clone(CloneType.E2E, 5);
            } else if (hdr.data.how == 5) {
                hdr.data.how = 8;
                recirculate_preserving_field_list(0);
            }
        }
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
