// Addresses a replica to its viewer.
#ifndef VIEWER_ADDRESS_P4
#define VIEWER_ADDRESS_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "checksum.p4"

// Reads `group` and egress_rid; writes the headers and both checksums. The source address and port of a copy are the
// destination address and UDP port of the packet (after PortAddress). So connected sockets and network address
// translators accept the copy as an answer.
control ViewerAddress(
    inout headers_t hdr,
    inout group_t group,
    inout standard_metadata_t standard_metadata
) {
    direct_counter(CounterType.packets_and_bytes) viewer_packets;
    bit<32> delta = 0;

    // The SFU's own address moves from destination to source, which changes no sum. So only two changes count: the
    // viewer's address replaces the presenter's, and the viewer's port replaces the source port.
    action send_to(mac_address_t mac, ipv4_address_t address, udp_port_t udp_port) {
        delta = address_delta(hdr.ipv4.src_addr, address);
        hdr.ipv4.header_checksum = updated_checksum(hdr.ipv4.header_checksum, delta);
        hdr.udp.checksum = updated_udp_checksum(
            hdr.udp.checksum,
            delta + word_delta(hdr.udp.src_port, udp_port)
        );
        hdr.ethernet.dst_addr = mac;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = address;
        hdr.udp.src_port = hdr.udp.dst_port;
        hdr.udp.dst_port = udp_port;
    }

    action drop_unknown_viewer() { mark_to_drop(standard_metadata); }

    // The controller writes an entry before it writes the replica that refers to the entry, and never changes the entry
    // while a packet may use it. A hit means a viewer; a miss means a replica that the controller did not write. The
    // table has the size of the recirculation program's pool (slot_pool.p4).
    table viewers {
        key = {
            group: exact @name("group");
            standard_metadata.egress_rid: exact @name("rid");
        }
        actions = { send_to; @defaultonly drop_unknown_viewer; }
        const default_action = drop_unknown_viewer();
        size = 131072;
        counters = viewer_packets;
    }

    apply { viewers.apply(); }
}

#endif
