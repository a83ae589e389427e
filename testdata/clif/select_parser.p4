// The parser's select: single values, which are searched, a mask, and a loop-free way through states.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}
header tag_t {
    bit<16> tci;
    bit<16> ether_type;
}
header word_t { bit<32> word; }
struct headers_t {
    ethernet_t ethernet;
    tag_t      tag;
    word_t     word;
}
struct metadata_t { }

parser ParserImpl(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            0x8100: tag;
            0x88a8: tag;
            0x0800: word;
            0x86dd: word;
            0x8800 &&& 0xff00: word;
            default: accept;
        }
    }
    state tag {
        packet.extract(hdr.tag);
        transition select(hdr.tag.tci, hdr.tag.ether_type) {
            (0, 0x0800): word;
            default: accept;
        }
    }
    state word {
        packet.extract(hdr.word);
        transition accept;
    }
}
control VerifyImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control IngressImpl(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply { standard_metadata.egress_spec = 2; }
}
control EgressImpl(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) { apply { } }
control UpdateImpl(inout headers_t hdr, inout metadata_t meta) { apply { } }
control DeparserImpl(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(ParserImpl(), VerifyImpl(), IngressImpl(), EgressImpl(), UpdateImpl(), DeparserImpl()) main;
