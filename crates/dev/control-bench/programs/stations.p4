// One table with room for two million entries. A frame leaves by the port of its destination.
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst_addr;
    bit<48> src_addr;
    bit<16> ether_type;
}

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t { }

parser StationsParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control StationsVerify(inout headers_t hdr, inout metadata_t meta) { apply { } }

control StationsIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    action forward(bit<9> port) { standard_metadata.egress_spec = port; }

    action drop() { mark_to_drop(standard_metadata); }

    table stations {
        key = { hdr.ethernet.dst_addr: exact @name("dst_addr"); }
        actions = { forward; drop; }
        default_action = drop();
        size = 2097152;
    }

    apply { stations.apply(); }
}

control StationsEgress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) { apply { } }

control StationsUpdate(inout headers_t hdr, inout metadata_t meta) { apply { } }

control StationsDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ethernet); }
}

V1Switch(StationsParser(), StationsVerify(), StationsIngress(), StationsEgress(), StationsUpdate(),
         StationsDeparser()) main;
