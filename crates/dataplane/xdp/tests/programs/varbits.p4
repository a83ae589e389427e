// Parses headers of variable width that follow each other, then the data behind them, and skips bits.

#include <core.p4>
#include <v1model.p4>

header first_t {
    bit<8> kind;
    bit<4> words;
    bit<4> rest;
    bit<16> sum;
}

header options_t {
    bit<8> number;
    varbit<160> data;
}

header length_t {
    bit<8> bits;
}

header last_t {
    bit<8> value;
    bit<32> more;
}

struct headers_t {
    first_t first;
    options_t options;
    length_t length;
    options_t[2] others;
    last_t last;
}

struct metadata_t {
}

parser VarbitsParse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.first);
        packet.extract(hdr.options, (bit<32>)hdr.first.words << 5);
        transition select(hdr.first.kind & 7) {
            0: length;
            1: others;
            2: skip;
            3: accept;
            default: last;
        }
    }
    state length {
        packet.extract(hdr.length);
        packet.extract(hdr.others.next, (bit<32>)hdr.length.bits & 0x3c);
        transition last;
    }
    state others {
        packet.extract(hdr.others.next, 16);
        transition select(hdr.others.last.number & 3) {
            1: others;
            default: last;
        }
    }
    state skip {
        packet.advance((bit<32>)hdr.first.rest << 3);
        transition last;
    }
    state last {
        packet.extract(hdr.last);
        transition accept;
    }
}

control VarbitsVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control VarbitsIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        hdr.first.sum = hdr.first.sum + 1;
        if (hdr.last.isValid()) {
            hdr.last.value = hdr.first.kind;
            hdr.last.more = hdr.last.more + 7;
        }
        if (hdr.first.rest == 1) {
            hdr.options.setInvalid();
        }
        if (hdr.first.rest == 2 && hdr.others[0].isValid()) {
            hdr.others[0].setInvalid();
            hdr.options.setInvalid();
        }
        if (hdr.first.rest == 3 && !hdr.length.isValid()) {
            hdr.options.setInvalid();
            hdr.options.setValid();
            hdr.options.number = 9;
        }
    }
}

control VarbitsEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.parser_error != error.NoError) {
            hdr.first.kind = hdr.first.kind | 0x80;
        }
        if (standard.packet_length > 60) {
            hdr.first.sum = (bit<16>)standard.packet_length;
        }
    }
}

control VarbitsCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control VarbitsDeparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(VarbitsParse(), VarbitsVerify(), VarbitsIngress(), VarbitsEgress(), VarbitsCompute(), VarbitsDeparse()) main;
