// States with several ways in, variables and assignments in states (sections 13.2, 13.4).
header data_t {
    bit<8> kind;
}
header number_t { bit<8> value; }
struct headers_t {
    data_t   data;
    number_t first;
    number_t second;
}
struct metadata_t {
    bit<8> sum;
    bit<8> n_states;
}
#include "include/blocks.p4"

PARSER {
    bit<8> n_states = 0;
    state start {
        packet.extract(hdr.data);
        n_states = n_states + 1;
        transition select(hdr.data.kind) {
            1: one;
            2: two;
            default: accept;
        }
    }
    state two {
        packet.extract(hdr.first);
        bit<8> value = hdr.first.value;
        meta.sum = value + 1;
        n_states = n_states + 1;
        transition one;
    }
    state one {
        packet.extract(hdr.second);
        meta.sum = meta.sum + hdr.second.value;
        n_states = n_states + 1;
        transition finish;
    }
    state finish {
        meta.n_states = n_states;
        transition accept;
    }
}

INGRESS {
    apply {
        if (hdr.second.isValid()) { hdr.second.value = meta.sum; }
        hdr.data.kind = meta.n_states;
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
