// Heavy hitters by a count-min sketch of three rows: a flow whose estimate passes the threshold is
// reported once and marked; the control plane clears the sketch by moving to another epoch.
#include "include/headers.p4"

#define CELLS 1024
const bit<6> MARK_DSCP = 8;

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
    udp_t      udp;
}

struct metadata_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<32> estimate;
    bit<32> threshold;
    bit<16> epoch;
    bool    is_heavy;
}

struct report_t {
    ipv4_addr_t src_addr;
    ipv4_addr_t dst_addr;
    bit<8>      protocol;
    bit<16>     src_port;
    bit<16>     dst_port;
    bit<32>     estimate;
}

parser SketchParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        meta.src_port = 0;
        meta.dst_port = 0;
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_TCP: parse_tcp;
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        meta.src_port = hdr.tcp.src_port;
        meta.dst_port = hdr.tcp.dst_port;
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.udp);
        meta.src_port = hdr.udp.src_port;
        meta.dst_port = hdr.udp.dst_port;
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

// One row. A cell of another epoch counts as 0. Writes the lower of `estimate` and the cell.
control SketchRow(in bit<32> index, in bit<16> epoch, in bit<32> amount, inout bit<32> estimate) {
    register<bit<48>>(CELLS) cells;

    apply {
        bit<48> cell;
        bit<32> count = 0;
        cells.read(cell, index);
        if (cell[47:32] == epoch) { count = cell[31:0]; }
        count = count |+| amount;
        cells.write(index, epoch ++ count);
        if (count < estimate) { estimate = count; }
    }
}

control SketchIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    SketchRow() first_row;
    SketchRow() second_row;
    SketchRow() third_row;
    register<bit<1>>(CELLS) reported;
    counter(2, CounterType.packets_and_bytes) seen;

    action drop() { mark_to_drop(standard_metadata); }

    action forward(port_id_t port) { standard_metadata.egress_spec = port; }

    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 256;
    }

    action watch(bit<32> threshold, bit<16> epoch) {
        meta.threshold = threshold;
        meta.epoch = epoch;
    }

    // How many bytes of a protocol make a flow heavy. A miss: not watched.
    table policies {
        key = { hdr.ipv4.protocol: exact; }
        actions = { watch; NoAction; }
        default_action = NoAction();
        size = 16;
    }

    action report(bit<32> index) {
        reported.write(index, 1);
        digest(1, (report_t) { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
                               meta.src_port, meta.dst_port, meta.estimate });
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        if (policies.apply().hit) {
            bit<32> first;
            bit<32> second;
            bit<32> third;
            bit<32> amount = (bit<32>) hdr.ipv4.total_length;
            // One hash for a row: another order of the fields, or another function.
            hash(first, HashAlgorithm.crc32, 32w0,
                 { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol, meta.src_port, meta.dst_port },
                 (bit<32>) CELLS);
            hash(second, HashAlgorithm.crc32, 32w0,
                 { meta.dst_port, meta.src_port, hdr.ipv4.dst_addr, hdr.ipv4.protocol, hdr.ipv4.src_addr },
                 (bit<32>) CELLS);
            hash(third, HashAlgorithm.crc16, 32w0,
                 { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol, meta.src_port, meta.dst_port },
                 (bit<32>) CELLS);
            meta.estimate = 0xffffffff;
            first_row.apply(first, meta.epoch, amount, meta.estimate);
            second_row.apply(second, meta.epoch, amount, meta.estimate);
            third_row.apply(third, meta.epoch, amount, meta.estimate);
            meta.is_heavy = meta.estimate > meta.threshold;
            if (meta.is_heavy) {
                hdr.ipv4.dscp = MARK_DSCP;
                seen.count(1);
                bit<1> was_reported;
                reported.read(was_reported, first);
                if (was_reported == 0) { report(first); }
            } else {
                seen.count(0);
            }
        }
        routes.apply();
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control SketchDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(SketchParser(), VerifyIpv4(), SketchIngress(), NoEgress(), UpdateIpv4(), SketchDeparser()) main;
