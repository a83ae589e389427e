// What the small programs here have in common: headers, metadata, and the blocks that they do not
// test. A program defines `Tested` and ends with PROGRAM(Tested(), NoEgress()), or brings its own blocks.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

header word_t {
    bit<32> a;
    bit<16> b;
    bit<8>  c;
    int<8>  d;
}

struct headers_t {
    ethernet_t ethernet;
    word_t     word;
    word_t[3]  words;
}

struct metadata_t {
    bit<32> x;
    bit<16> y;
    bool    flag;
    @field_list(1) bit<8> kept;
}

parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x1234: word;
            default: accept;
        }
    }
    state word {
        packet.extract(hdr.word);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control TestDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

#define INGRESS control Tested(inout headers_t hdr, inout metadata_t meta, \
                                inout standard_metadata_t standard_metadata)
#define EGRESS control TestedEgress(inout headers_t hdr, inout metadata_t meta, \
                              inout standard_metadata_t standard_metadata)
#define PROGRAM(ingress, egress) V1Switch(TestParser(), NoChecksum(), ingress, egress, NoChecksum(), TestDeparser()) main
