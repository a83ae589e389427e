// The deprecated clone3, resubmit and recirculate keep the fields that their argument names, as they are when
// the control has ended; fields of headers in an ingress clone only, which gets them over what was parsed.
header pass_t {
    bit<8> want;
    bit<8> instance;
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> port;
    bit<8> mark;
}
struct headers_t { pass_t pass; }

struct inner_t {
    bit<8> a;
    bit<8> b;
}
struct metadata_t {
    inner_t inner;
    bit<8> c;
}
#include "include/blocks.p4"

const bit<8> RESUBMIT_STRUCT = 1;
const bit<8> RESUBMIT_FIELD = 2;
const bit<8> RESUBMIT_PORT = 3;
const bit<8> RECIRCULATE_LIST = 4;
const bit<8> RECIRCULATE_NOTHING = 5;
const bit<8> RECIRCULATE_STANDARD = 6;
const bit<8> CLONE_INGRESS = 7;
const bit<8> CLONE_HEADER = 8;
const bit<8> CLONE_EGRESS = 9;

PARSER {
    state start {
        packet.extract(hdr.pass);
        transition accept;
    }
}

control Show(inout headers_t hdr, in metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        hdr.pass.instance = (bit<8>) standard_metadata.instance_type;
        hdr.pass.a = meta.inner.a;
        hdr.pass.b = meta.inner.b;
        hdr.pass.c = meta.c;
    }
}

// The arguments are this control's parameters: they are the metadata nevertheless.
control Copies(in headers_t hdr, in metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        if (hdr.pass.want == CLONE_INGRESS) {
            clone3(CloneType.I2E, 5, { meta.inner, standard_metadata.ingress_port });
        } else if (hdr.pass.want == CLONE_HEADER) {
            clone3<tuple<bit<8>, bit<8>>>(CloneType.I2E, 5, { meta.c, hdr.pass.mark });
        }
    }
}

INGRESS {
    Copies() copies;
    Show() show;
    apply {
        if (standard_metadata.instance_type != 0) {
            hdr.pass.port = (bit<8>) standard_metadata.egress_spec;
            standard_metadata.egress_spec = 2;
            show.apply(hdr, meta, standard_metadata);
            exit;
        }
        standard_metadata.egress_spec = 3;
        meta.inner = { 0xa1, 0xb1 };
        meta.c = 0xc1;
        copies.apply(hdr, meta, standard_metadata);
        if (hdr.pass.want == RESUBMIT_STRUCT) {
            resubmit(meta);
        } else if (hdr.pass.want == RESUBMIT_FIELD) {
            resubmit(meta.inner.b);
        } else if (hdr.pass.want == RESUBMIT_PORT) {
            resubmit({ { standard_metadata.egress_spec }, meta.c });
        }
        meta.inner.b = 0xb2;
        hdr.pass.mark = 0x77;
    }
}

EGRESS {
    Show() show;
    apply {
        if (standard_metadata.instance_type != 0) {
            if (hdr.pass.want != CLONE_HEADER) {
                hdr.pass.port = (bit<8>) standard_metadata.ingress_port;
            }
            show.apply(hdr, meta, standard_metadata);
        } else if (hdr.pass.instance == 0) {
            if (hdr.pass.want == RECIRCULATE_LIST) {
                recirculate({ meta.inner.a, meta.c });
            } else if (hdr.pass.want == RECIRCULATE_NOTHING) {
                recirculate({});
            } else if (hdr.pass.want == RECIRCULATE_STANDARD) {
                standard_metadata.egress_spec = 9;
                recirculate(standard_metadata);
            } else if (hdr.pass.want == CLONE_EGRESS) {
                clone3(CloneType.E2E, 5, { standard_metadata.ingress_port, meta.c });
            }
        }
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
