// The end of GRE (RFC 2784) and VXLAN (RFC 7348) tunnels: what arrives in a tunnel for us is taken out,
// what goes to a remote segment is put into one.
#include "include/headers.p4"

const bit<16> VXLAN_PORT = 4789;
const bit<16> GRE_ETHERNET = 0x6558;
const bit<8> VXLAN_VNI_VALID = 0x08;

struct headers_t {
    ethernet_t outer_ethernet;
    ipv4_t     ipv4;
    udp_t      udp;
    vxlan_t    vxlan;
    gre_t      gre;
    ethernet_t ethernet;
    ipv4_t     inner_ipv4;
    udp_t      inner_udp;
}

struct metadata_t {
    bit<24> segment;
    bit<16> tunnel;
    bit<16> entropy;
    bool    came_by_tunnel;
}

parser EndpointParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.outer_ethernet);
        transition select(hdr.outer_ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol, hdr.ipv4.ihl) {
            (PROTOCOL_UDP, 5): parse_udp;
            (PROTOCOL_GRE, 5): parse_gre;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            VXLAN_PORT: parse_vxlan;
            default: accept;
        }
    }

    state parse_vxlan {
        packet.extract(hdr.vxlan);
        transition parse_inner_ethernet;
    }

    state parse_gre {
        packet.extract(hdr.gre);
        transition select(hdr.gre.flags_and_version, hdr.gre.protocol) {
            (0, ETHERTYPE_IPV4): parse_inner_ipv4;
            (0, GRE_ETHERNET): parse_inner_ethernet;
            default: accept;
        }
    }

    state parse_inner_ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }

    state parse_inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

// Takes the packet out of its tunnel, if the tunnel ends here.
control Decapsulation(inout headers_t hdr, inout metadata_t meta,
                      in standard_metadata_t standard_metadata) {
    action terminate(bit<24> segment) {
        meta.came_by_tunnel = true;
        meta.segment = segment;
    }

    table vxlan_segments {
        key = {
            hdr.ipv4.dst_addr: exact;
            hdr.vxlan.vni: exact;
        }
        actions = { terminate; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    table gre_segments {
        key = {
            hdr.ipv4.dst_addr: exact;
            hdr.ipv4.src_addr: exact;
        }
        actions = { terminate; NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        if (hdr.vxlan.isValid() && hdr.vxlan.flags & VXLAN_VNI_VALID != 0 && hdr.ethernet.isValid()) {
            vxlan_segments.apply();
        } else if (hdr.gre.isValid() && (hdr.ethernet.isValid() || hdr.inner_ipv4.isValid())) {
            gre_segments.apply();
        }
        if (!meta.came_by_tunnel) { return; }
        hdr.udp.setInvalid();
        hdr.vxlan.setInvalid();
        hdr.gre.setInvalid();
        if (hdr.ethernet.isValid()) {
            hdr.outer_ethernet = hdr.ethernet;
            hdr.ethernet.setInvalid();
            hdr.ipv4.setInvalid();
        } else {
            hdr.ipv4 = hdr.inner_ipv4;
            hdr.inner_ipv4.setInvalid();
        }
    }
}

// Puts the frame into a tunnel. Its length comes from the frame's, less what decapsulation took away,
// which never happens to one that goes on by a tunnel.
control Encapsulation(inout headers_t hdr, in metadata_t meta, in bit<32> frame_bytes) {
    action outer_ipv4(ipv4_addr_t src, ipv4_addr_t dst, bit<8> protocol, bit<16> extra_bytes) {
        hdr.ipv4.setValid();
        hdr.ipv4 = { 4, 5, 0, 0, (bit<16>) frame_bytes + extra_bytes, 0, 2, 0, 64, protocol, 0, src, dst };
    }

    action vxlan_to(ipv4_addr_t src, ipv4_addr_t dst, bit<24> vni, mac_addr_t own, mac_addr_t next) {
        hdr.ethernet = hdr.outer_ethernet;
        hdr.inner_ipv4 = hdr.ipv4;
        hdr.inner_udp = hdr.udp;
        hdr.outer_ethernet = { next, own, ETHERTYPE_IPV4 };
        outer_ipv4(src, dst, PROTOCOL_UDP, 36);
        hdr.udp.setValid();
        hdr.udp = { meta.entropy | 0xc000, VXLAN_PORT, (bit<16>) frame_bytes + 16, 0 };
        hdr.vxlan.setValid();
        hdr.vxlan = { VXLAN_VNI_VALID, 0, vni, 0 };
    }

    action gre_to(ipv4_addr_t src, ipv4_addr_t dst, mac_addr_t own, mac_addr_t next) {
        hdr.ethernet = hdr.outer_ethernet;
        hdr.inner_ipv4 = hdr.ipv4;
        hdr.inner_udp = hdr.udp;
        hdr.outer_ethernet = { next, own, ETHERTYPE_IPV4 };
        outer_ipv4(src, dst, PROTOCOL_GRE, 24);
        hdr.udp.setInvalid();
        hdr.gre.setValid();
        hdr.gre = { 0, GRE_ETHERNET };
    }

    table tunnels {
        key = { meta.tunnel: exact; }
        actions = { vxlan_to; gre_to; NoAction; }
        default_action = NoAction();
        size = 256;
    }

    apply { tunnels.apply(); }
}

control EndpointIngress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    Decapsulation() decapsulation;
    Encapsulation() encapsulation;

    action drop() { mark_to_drop(standard_metadata); }

    action in_segment(bit<24> segment) { meta.segment = segment; }

    table port_segments {
        key = { standard_metadata.ingress_port: exact; }
        actions = { in_segment; drop; }
        default_action = drop();
        size = 64;
    }

    action to_port(port_id_t port) { standard_metadata.egress_spec = port; }

    action to_tunnel(bit<16> tunnel, port_id_t port) {
        meta.tunnel = tunnel;
        standard_metadata.egress_spec = port;
    }

    // Stations of a segment, local and remote.
    table stations {
        key = {
            meta.segment: exact;
            hdr.outer_ethernet.dst_addr: exact;
        }
        actions = { to_port; to_tunnel; drop; }
        default_action = drop();
        size = 4096;
    }

    apply {
        if (standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        decapsulation.apply(hdr, meta, standard_metadata);
        if (!meta.came_by_tunnel) {
            switch (port_segments.apply().action_run) {
                drop: { exit; }
                default: { }
            }
        }
        stations.apply();
        if (meta.tunnel != 0) {
            // No way from tunnel to tunnel, as the remote ends are connected all to all, and no tunnel
            // inside a tunnel.
            if (meta.came_by_tunnel || hdr.vxlan.isValid() || hdr.gre.isValid()) {
                drop();
                exit;
            }
            hash(meta.entropy, HashAlgorithm.crc16, 16w0,
                 { hdr.outer_ethernet.dst_addr, hdr.outer_ethernet.src_addr }, 16w0x4000);
            encapsulation.apply(hdr, meta, standard_metadata.packet_length);
        }
    }
}

control NoEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) { apply { } }

control EndpointDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.outer_ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.udp);
        packet.emit(hdr.vxlan);
        packet.emit(hdr.gre);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_udp);
    }
}

V1Switch(EndpointParser(), VerifyIpv4(), EndpointIngress(), NoEgress(), UpdateIpv4(),
         EndpointDeparser()) main;
