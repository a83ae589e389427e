// As many rounds as the packet's first byte says, by resubmission or recirculation, counted in a field list of a
// struct in the metadata; each round leaves its mark in a register.
header round_t {
    bit<8> n_rounds;
    bit<8> way;
    bit<8> count;
}
struct headers_t { round_t round; }

const bit<8> KEPT = 1;
const bit<8> BY_RECIRCULATION = 1;
const bit<8> FRAME = 0x80;

struct progress_t { @field_list(KEPT) bit<8> done; }
struct metadata_t { progress_t progress; }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.round);
        transition accept;
    }
}

INGRESS {
    register<bit<8>>(256) ingress_marks;
    apply {
        standard_metadata.egress_spec = 2;
        ingress_marks.write((bit<32>) meta.progress.done, hdr.round.count + FRAME);
        // A resubmitted packet is the frame as it came: this is lost with each round but the last.
        hdr.round.count = hdr.round.count + 1;
        if (hdr.round.way != BY_RECIRCULATION && meta.progress.done < hdr.round.n_rounds) {
            meta.progress.done = meta.progress.done + 1;
            resubmit_preserving_field_list(KEPT);
        }
    }
}

EGRESS {
    apply {
        if (hdr.round.way == BY_RECIRCULATION && meta.progress.done < hdr.round.n_rounds) {
            meta.progress.done = meta.progress.done + 1;
            recirculate_preserving_field_list(KEPT);
        }
    }
}

SWITCH(TestParser, TestIngress, TestEgress);
