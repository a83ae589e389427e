// A deparser that logs and asserts. The register's name resembles a keyword, and is none.
#include <core.p4>
#include <v1model.p4>

header word_t {
    bit<16> value;
}

struct headers_t {
    word_t word;
}

struct metadata_t { }

parser P(
    packet_in packet,
    out headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    state start {
        packet.extract(hdr.word);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control In(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    register<bit<16>>(1) rr_turn;

    apply {
        rr_turn.read(hdr.word.value, 0);
        rr_turn.write(0, hdr.word.value + 1);
        standard_metadata.egress_spec = 1;
    }
}

control Out(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    apply { }
}

control Emit(packet_out packet, in headers_t hdr) {
    apply {
        log_msg("word {}, valid {}", { hdr.word.value, hdr.word.isValid() });
        packet.emit(hdr.word);
        assert(hdr.word.value != 0xffff);
    }
}

V1Switch(P(), NoChecksum(), In(), Out(), NoChecksum(), Emit()) main;
