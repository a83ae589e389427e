// Field lists by constants, serializable enums and sums, on members of structs in structs, on a struct as a
// whole and on its type: each call keeps what is in its list and nothing else (v1model).
header pass_t {
    bit<8> want;
    bit<8> instance;
    bit<8> a;
    bit<8> b;
    bit<8> c;
    bit<8> d;
    bit<8> e;
    bit<8> f;
}
struct headers_t { pass_t pass; }

const bit<8> FIRST = 1;
enum bit<8> Kept { SECOND = 2, THIRD = 3 }

struct inner_t {
    @field_list(FIRST) bit<8> a;
    @field_list(FIRST, Kept.SECOND) bit<8> b;
    bit<8> c;
}
struct middle_t { inner_t inner; }
@field_list(FIRST + 2) struct typed_t { bit<8> d; }
struct whole_t {
    bit<8> e;
    typed_t typed;
    bit<8> f;
}
struct metadata_t {
    middle_t middle;
    @field_list(Kept.SECOND) whole_t whole;
}
#include "include/blocks.p4"

const bit<8> RESUBMIT = 1;
const bit<8> RECIRCULATE = 2;
const bit<8> CLONE_INGRESS = 3;
const bit<8> CLONE_EGRESS = 4;

PARSER {
    state start {
        packet.extract(hdr.pass);
        transition accept;
    }
}

control Show(inout headers_t hdr, in metadata_t meta, in standard_metadata_t standard_metadata) {
    apply {
        hdr.pass.instance = (bit<8>) standard_metadata.instance_type;
        hdr.pass.a = meta.middle.inner.a;
        hdr.pass.b = meta.middle.inner.b;
        hdr.pass.c = meta.middle.inner.c;
        hdr.pass.d = meta.whole.typed.d;
        hdr.pass.e = meta.whole.e;
        hdr.pass.f = meta.whole.f;
    }
}

INGRESS {
    Show() show;
    apply {
        standard_metadata.egress_spec = 2;
        if (standard_metadata.instance_type != 0) {
            show.apply(hdr, meta, standard_metadata);
            exit;
        }
        meta = { { { 0xa1, 0xb1, 0xc1 } }, { 0xe1, { 0xd1 }, 0xf1 } };
        if (hdr.pass.want == RESUBMIT) {
            resubmit_preserving_field_list(FIRST);
        } else if (hdr.pass.want == CLONE_INGRESS) {
            clone_preserving_field_list(CloneType.I2E, 5, (bit<8>) Kept.THIRD);
        }
        // The list is read when ingress has ended.
        meta.middle.inner.b = 0xb2;
    }
}

EGRESS {
    Show() show;
    apply {
        if (standard_metadata.instance_type != 0) {
            show.apply(hdr, meta, standard_metadata);
        } else if (hdr.pass.instance == 0) {
            if (hdr.pass.want == RECIRCULATE) {
                recirculate_preserving_field_list((bit<8>) Kept.SECOND);
            } else if (hdr.pass.want == CLONE_EGRESS) {
                clone_preserving_field_list(CloneType.E2E, 5, 1 + 1);
            }
        }
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
