// Alternative headers: ingress changes them, invalidates them, or writes them while they are invalid. Egress reads
// their fields whether the headers are valid or not. The bits of the field `what` say what happens.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<40> dst_addr;
    bit<8> what;
    bit<48> src_addr;
    bit<16> ether_type;
}

header left_t {
    bit<8> n;
    bit<72> wide;
}

header right_t {
    int<8> n;
    bit<24> rest;
}

header one_t {
    bit<16> value;
}

header two_t {
    bit<8> value;
}

header_union either_t {
    one_t one;
    two_t two;
}

// The values that egress has read when it handled a copy.
header seen_t {
    bit<8> left_n;
    bit<72> left_wide;
    int<16> right_n;
    bit<16> one;
    bit<8> two;
    bit<16> instance;
}

struct headers_t {
    ethernet_t ethernet;
    left_t left;
    right_t right;
    either_t either;
    seen_t seen;
}

struct metadata_t {}

parser AlternativesParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.ethernet);
        transition select(headers.ethernet.ether_type) {
            0x0901: left;
            0x0902: right;
            0x0903: both;
            0x0904: one;
            0x0905: one_then_two;
            0x0906: left_made_invalid;
            0x0907: right_made_valid;
            default: seen;
        }
    }
    state left {
        packet.extract(headers.left);
        transition seen;
    }
    state right {
        packet.extract(headers.right);
        transition seen;
    }
    state both {
        packet.extract(headers.left);
        packet.extract(headers.right);
        transition seen;
    }
    state one {
        packet.extract(headers.either.one);
        transition seen;
    }
    state one_then_two {
        packet.extract(headers.either.one);
        packet.extract(headers.either.two);
        transition seen;
    }
    state left_made_invalid {
        packet.extract(headers.left);
        headers.left.setInvalid();
        transition seen;
    }
    state right_made_valid {
        packet.extract(headers.left);
        headers.right.setValid();
        headers.right.rest = 0xabcdef;
        transition seen;
    }
    state seen {
        packet.extract(headers.seen);
        transition accept;
    }
}

control AlternativesVerify(inout headers_t headers, inout metadata_t meta) {
    apply {}
}

control AlternativesIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (headers.ethernet.what[0:0] == 1) {
            headers.left.n = headers.left.n + 1;
            headers.left.wide = headers.left.wide + 0x0102030405060708;
        }
        if (headers.ethernet.what[1:1] == 1) {
            headers.right.n = headers.right.n - 1;
        }
        if (headers.ethernet.what[2:2] == 1) {
            headers.left.setInvalid();
        }
        if (headers.ethernet.what[3:3] == 1) {
            headers.right.setInvalid();
            headers.right.n = headers.right.n - 2;
        }
        if (headers.ethernet.what[4:4] == 1) {
            headers.right.setValid();
        }
        standard.mcast_grp = 1;
    }
}

control AlternativesEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (headers.ethernet.what[5:5] == 1) {
            headers.left.setValid();
            headers.either.two.setValid();
        }
        headers.seen.left_n = headers.left.n;
        headers.seen.left_wide = headers.left.wide;
        headers.seen.right_n = (int<16>) headers.right.n;
        headers.seen.one = headers.either.one.value;
        headers.seen.two = headers.either.two.value;
        headers.seen.instance = standard.egress_rid;
        if (headers.right.isValid()) {
            headers.right.n = headers.right.n + 5;
        } else if (headers.left.isValid()) {
            headers.left.n = headers.left.n + 7;
        }
    }
}

control AlternativesCompute(inout headers_t headers, inout metadata_t meta) {
    apply {}
}

control AlternativesDeparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers.ethernet);
        packet.emit(headers.left);
        packet.emit(headers.right);
        packet.emit(headers.either);
        packet.emit(headers.seen);
    }
}

V1Switch(AlternativesParser(), AlternativesVerify(), AlternativesIngress(), AlternativesEgress(), AlternativesCompute(), AlternativesDeparser()) main;
