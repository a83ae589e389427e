// Adds, subtracts and compares numbers that are wider than a machine word, also where such numbers begin or end within
// a byte. Also adds and subtracts, with saturation, numbers that fit into a machine word.

#include <core.p4>
#include <v1model.p4>

header numbers_t {
    bit<8> kind;
    bit<128> left;
    bit<128> right;
    bit<128> result;
    int<72> low;
    int<72> high;
    bit<64> word;
}

header odd_t {
    bit<3> low;
    bit<70> middle;
    bit<135> high;
}

struct headers_t {
    numbers_t numbers;
    odd_t odd;
}

struct metadata_t {
}

parser WideParse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.numbers);
        transition select(hdr.numbers.kind & 8) {
            0: accept;
            default: odd;
        }
    }
    state odd {
        packet.extract(hdr.odd);
        transition accept;
    }
}

control WideVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control WideIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        if (hdr.numbers.kind & 1 == 0) {
            hdr.numbers.result = hdr.numbers.left + hdr.numbers.right;
        } else {
            hdr.numbers.result = hdr.numbers.left - hdr.numbers.right;
        }
        if (hdr.numbers.kind & 2 == 0) {
            hdr.numbers.low = hdr.numbers.low - hdr.numbers.high;
        }
        if (hdr.numbers.low < hdr.numbers.high) {
            hdr.numbers.kind = 0xff;
        }
        if (hdr.numbers.kind & 4 == 0) {
            hdr.numbers.left = (hdr.numbers.left + 1) - (hdr.numbers.right + (128w1 << 63));
        }
        if (hdr.numbers.kind & 0x40 != 0) {
            hdr.numbers.result = (bit<128>)hdr.numbers.word[7:0] |-| (bit<128>)hdr.numbers.word[15:8];
            hdr.numbers.high = (int<72>)(int<8>)hdr.numbers.word[23:16] |+| (int<72>)(int<8>)hdr.numbers.word[31:24];
        }
        if (hdr.odd.isValid()) {
            hdr.odd.middle = hdr.odd.middle + 1;
            hdr.odd.high = hdr.odd.high - 1;
        }
        if (hdr.numbers.kind & 0x30 == 0x30) {
            hdr.numbers.setInvalid();
        }
        if (hdr.numbers.left + hdr.numbers.right >= hdr.numbers.result) {
            hdr.numbers.word = (bit<64>)(((bit<65>)hdr.numbers.word + 65w1) >> 1);
        }
    }
}

control WideEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control WideCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control WideDeparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(WideParse(), WideVerify(), WideIngress(), WideEgress(), WideCompute(), WideDeparse()) main;
