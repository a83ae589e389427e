// `a[i] op= b` evaluates its left side once: an index that calls something is not called again
// for the value.
#include <core.p4>
#include <v1model.p4>

header counter_t {
    bit<8> next;
}

header cell_t {
    bit<8> value;
}

struct headers_t {
    counter_t counter;
    cell_t[4] cells;
}

struct metadata_t { }

parser CellParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.counter);
        packet.extract(hdr.cells.next);
        packet.extract(hdr.cells.next);
        packet.extract(hdr.cells.next);
        packet.extract(hdr.cells.next);
        transition accept;
    }
}

bit<8> post_increment(inout bit<8> value) {
    bit<8> before = value;
    value = value + 1;
    return before;
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control CellIngress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply {
        standard_metadata.egress_spec = 1;
        hdr.cells[post_increment(hdr.counter.next) & 3].value += 0x10;
        hdr.cells[post_increment(hdr.counter.next) & 3].value[7:4] |= 0x8;
        hdr.cells[post_increment(hdr.counter.next) & 3].value |-|= 0x11;
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control CellDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.counter);
        packet.emit(hdr.cells);
    }
}

V1Switch(CellParser(), NoChecksum(), CellIngress(), NoEgress(), NoChecksum(), CellDeparser()) main;
