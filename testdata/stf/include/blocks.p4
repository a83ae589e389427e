// The blocks that a test does not care for. Included after headers_t and metadata_t. Nothing sets
// egress_spec unless the test does: the frame leaves at port 0.
#include <core.p4>
#include <v1model.p4>

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control NoIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) { apply { } }

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control EmitAll(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

#define PARSER parser TestParser(packet_in packet, out headers_t hdr, inout metadata_t meta, \
                                 inout standard_metadata_t standard_metadata)
#define INGRESS control TestIngress(inout headers_t hdr, inout metadata_t meta, \
                                    inout standard_metadata_t standard_metadata)
#define EGRESS control TestEgress(inout headers_t hdr, inout metadata_t meta, \
                                  inout standard_metadata_t standard_metadata)
#define CHECKSUM(name) control name(inout headers_t hdr, inout metadata_t meta)
#define DEPARSER control TestDeparser(packet_out packet, in headers_t hdr)
#define SWITCH(parser, ingress, egress) \
    V1Switch(parser(), NoChecksum(), ingress(), egress(), NoChecksum(), EmitAll()) main
