// Computes hashes of every kind over headers that may be missing and over parts of bytes, and a checksum that is a CRC.

#include <core.p4>
#include <v1model.p4>

header first_t {
    bit<8> kind;
    bit<16> sum;
    bit<32> results;
}

header pair_t {
    bit<48> left;
    bit<16> right;
}

header odd_t {
    bit<3> low;
    bit<70> middle;
    bit<7> high;
    bit<32> last;
}

struct headers_t {
    first_t first;
    pair_t pair;
    odd_t odd;
}

struct metadata_t {
    bit<5> five;
    bit<128> wide;
}

parser HashesParse(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.first);
        transition select(hdr.first.kind) {
            1: pair;
            2: odd;
            3: pair_and_odd;
            default: accept;
        }
    }
    state pair {
        packet.extract(hdr.pair);
        transition accept;
    }
    state odd {
        packet.extract(hdr.odd);
        transition accept;
    }
    state pair_and_odd {
        packet.extract(hdr.pair);
        transition odd;
    }
}

control HashesVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.odd.isValid(), { hdr.first.kind, hdr.odd.last }, hdr.first.sum, HashAlgorithm.crc16);
    }
}

control HashesIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    bit<32> value;

    apply {
        standard.egress_spec = 1;
        meta.five = (bit<5>)hdr.first.kind;
        hash(value, HashAlgorithm.crc16, 16w3, { hdr.first.kind, hdr.pair.left, hdr.pair.right }, 32w0xffff);
        hdr.first.results = value;
        hash(value, HashAlgorithm.crc32, 32w0, { hdr.pair.left, hdr.odd.low, hdr.odd.middle, hdr.odd.high, hdr.first.kind }, 32w0xffffffff);
        hdr.first.results = hdr.first.results ^ value;
        hash(value, HashAlgorithm.xor16, 16w1, { hdr.pair.left, hdr.first.kind, meta.five }, 32w1000);
        hdr.first.results = hdr.first.results + value;
        hash(value, HashAlgorithm.identity, 16w0, { hdr.pair.right, hdr.first.kind }, 32w0);
        hdr.first.results = hdr.first.results + value;
        hash(value, HashAlgorithm.identity, 16w0, { hdr.pair.left, hdr.pair.right, hdr.first.kind }, 64w0x100000001);
        hdr.first.results = hdr.first.results ^ value;
        hash(value, HashAlgorithm.csum16, 16w0, { hdr.pair.left, hdr.first.kind, meta.five }, 32w0x10000);
        hdr.first.results = hdr.first.results ^ value;
        // Where a header is missing, what follows would begin within a byte, so such packets are punted.
        if (hdr.odd.isValid() && hdr.pair.isValid()) {
            hash(meta.wide, HashAlgorithm.crc32, 32w7, { hdr.odd.low, hdr.pair.right, hdr.odd.middle }, 32w0x80000000);
            hdr.first.results = hdr.first.results ^ meta.wide[47:16];
        }
    }
}

control HashesEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.checksum_error == 1) {
            hdr.first.kind = 0xff;
        }
    }
}

control HashesCompute(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(true, { hdr.first.kind, hdr.first.results }, hdr.first.sum, HashAlgorithm.crc16);
    }
}

control HashesDeparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(HashesParse(), HashesVerify(), HashesIngress(), HashesEgress(), HashesCompute(), HashesDeparse()) main;
