// Network address and port translation (RFC 3022): four tables of bindings by direction and protocol,
// checksums after it, and unknown flows from inside to the control plane as digests.
#include "include/headers.p4"

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    tcp_t      tcp;
    udp_t      udp;
}

struct metadata_t {
    bit<16> src_port;
    bit<16> dst_port;
    bit<16> transport_length;
    bit<1>  is_translated;
    bit<1>  is_inside;
}

struct flow_t {
    ipv4_addr_t src_addr;
    ipv4_addr_t dst_addr;
    bit<16>     src_port;
    bit<16>     dst_port;
    bit<8>      protocol;
}

parser NatParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
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
        meta.transport_length = hdr.ipv4.total_length - 20;
        transition select(hdr.ipv4.ihl, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (5, 0, PROTOCOL_TCP): parse_tcp;
            (5, 0, PROTOCOL_UDP): parse_udp;
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

control NatIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    counter(3, CounterType.packets) untranslated;
    direct_counter(CounterType.packets_and_bytes) by_binding;

    action drop() { mark_to_drop(standard_metadata); }

    action inside() { meta.is_inside = 1; }

    action outside() { meta.is_inside = 0; }

    table realms {
        key = { standard_metadata.ingress_port: exact; }
        actions = { inside; outside; }
        default_action = outside();
        size = 64;
    }

    action translate_source(ipv4_addr_t address, bit<16> port) {
        by_binding.count();
        hdr.ipv4.src_addr = address;
        meta.src_port = port;
        meta.is_translated = 1;
    }

    // A flow from inside that has a binding. The control plane makes it for the flows of the digests.
    table source_bindings {
        key = {
            hdr.ipv4.src_addr: exact;
            hdr.ipv4.protocol: exact;
            meta.src_port: exact;
        }
        actions = { translate_source; NoAction; }
        default_action = NoAction();
        counters = by_binding;
        size = 8192;
    }

    action translate_destination(ipv4_addr_t address, bit<16> port) {
        hdr.ipv4.dst_addr = address;
        meta.dst_port = port;
        meta.is_translated = 1;
    }

    // The way back, by the peer as well: a binding is open to the hosts that were asked.
    table return_bindings {
        key = {
            hdr.ipv4.dst_addr: exact;
            hdr.ipv4.protocol: exact;
            meta.dst_port: exact;
            hdr.ipv4.src_addr: exact;
        }
        actions = { translate_destination; NoAction; }
        default_action = NoAction();
        size = 8192;
    }

    // Servers inside that all may reach, by ranges of ports that stay as they are.
    table forwarded_ports {
        key = {
            hdr.ipv4.dst_addr: exact;
            hdr.ipv4.protocol: exact;
            meta.dst_port: range;
        }
        actions = { translate_destination; NoAction; }
        default_action = NoAction();
        size = 64;
    }

    action forward(port_id_t port, mac_addr_t src, mac_addr_t dst) {
        standard_metadata.egress_spec = port;
        hdr.ethernet.src_addr = src;
        hdr.ethernet.dst_addr = dst;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 256;
    }

    apply {
        if (!hdr.ipv4.isValid() || hdr.ipv4.ttl <= 1 || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        if (!hdr.tcp.isValid() && !hdr.udp.isValid()) {
            untranslated.count(2);
            drop();
            exit;
        }
        realms.apply();
        if (meta.is_inside == 1) {
            if (source_bindings.apply().miss) {
                digest(1, (flow_t) { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, meta.src_port,
                                     meta.dst_port, hdr.ipv4.protocol });
                untranslated.count(0);
                drop();
                exit;
            }
        } else if (return_bindings.apply().miss && forwarded_ports.apply().miss) {
            untranslated.count(1);
            drop();
            exit;
        }
        if (hdr.tcp.isValid()) {
            hdr.tcp.src_port = meta.src_port;
            hdr.tcp.dst_port = meta.dst_port;
        } else {
            hdr.udp.src_port = meta.src_port;
            hdr.udp.dst_port = meta.dst_port;
        }
        routes.apply();
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control UpdateChecksums(inout headers_t hdr, inout metadata_t meta) {
    UpdateIpv4() update_ipv4;
    apply {
        update_ipv4.apply(hdr, meta);
        update_checksum_with_payload(hdr.tcp.isValid() && meta.is_translated == 1,
            { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, 8w0, hdr.ipv4.protocol, meta.transport_length,
              hdr.tcp.src_port, hdr.tcp.dst_port, hdr.tcp.seq_no, hdr.tcp.ack_no, hdr.tcp.data_offset,
              hdr.tcp.reserved, hdr.tcp.flags, hdr.tcp.window, hdr.tcp.urgent_pointer },
            hdr.tcp.checksum, HashAlgorithm.csum16);
        // A UDP checksum of 0 says that there is none.
        update_checksum_with_payload(hdr.udp.isValid() && meta.is_translated == 1 && hdr.udp.checksum != 0,
            { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, 8w0, hdr.ipv4.protocol, meta.transport_length,
              hdr.udp.src_port, hdr.udp.dst_port, hdr.udp.length },
            hdr.udp.checksum, HashAlgorithm.csum16);
    }
}

control NatDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(NatParser(), VerifyIpv4(), NatIngress(), NoEgress(), UpdateChecksums(), NatDeparser()) main;
