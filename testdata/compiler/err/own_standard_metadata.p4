// An architecture of the program's own, with v1model's package: a switch without ports.
#include <core.p4>

struct standard_metadata_t {
    bit<32> qdepth;
    bool drop;
}
parser Parser<H, M>(packet_in packet, out H hdr, inout M meta, inout standard_metadata_t standard);
control Verify<H, M>(inout H hdr, inout M meta);
control Pipe<H, M>(inout H hdr, inout M meta, inout standard_metadata_t standard);
control Deparser<H>(packet_out packet, in H hdr);
package V1Switch<H, M>(Parser<H, M> p, Verify<H, M> v, Pipe<H, M> i, Pipe<H, M> e, Verify<H, M> c,
                       Deparser<H> d);

header h_t { bit<8> kind; }
struct headers_t { h_t h; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}
control C(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { standard.drop = standard.qdepth > 9; }
}
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.h); } }

V1Switch(P(), C(), I(), I(), C(), D()) main;
