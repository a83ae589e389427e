// What the control plane calls a key without @name: its expression, by the names of the fields
// for the control plane, numbers as they are written.
#include <core.p4>
#include <v1model.p4>

#define LOW_HALF 0xffff
const bit<32> HIGH_BYTE = 0xff << 24;
const bit<32> DECIMAL = 255;

struct inner_t {
    @name("depth") bit<32> d;
    @name(".level") bit<32> l;
}
header word_t {
    @name("first") bit<32> a;
    bit<32> b;
}
struct headers_t {
    @name("outer") word_t word;
    word_t[2] words;
}
struct metadata_t {
    @name("nested") inner_t inner;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.word);
        packet.extract(hdr.words[0]);
        packet.extract(hdr.words[1]);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Tested(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t standard_metadata) {
    table t {
        key = {
            hdr.word.a: exact;
            meta.inner.d: exact;
            meta.inner.l: exact;
            hdr.word.isValid(): exact;
            hdr.words[0x1].a: exact;
            hdr.word.b[0xf:8]: exact;
            hdr.word.b & LOW_HALF: exact;
            hdr.word.b & HIGH_BYTE: exact;
            hdr.word.b & DECIMAL: exact;
            hdr.word.b & 0b1100: exact;
            hdr.words[0].b: exact @name("given");
        }
        actions = { NoAction; }
    }
    apply { t.apply(); }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control TestDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(TestParser(), NoChecksum(), Tested(), NoEgress(), NoChecksum(), TestDeparser()) main;
