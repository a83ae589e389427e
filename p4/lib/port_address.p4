// If a copy leaves by another port than the one by which the packet arrived, makes the SFU's address on the output port
// the copy's source address.
#ifndef PORT_ADDRESS_P4
#define PORT_ADDRESS_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "checksum.p4"

// Reads egress_port; writes the headers and both checksums as if the packet had been sent to the
// SFU's address on that port. So later controls need no special case for such copies.
control PortAddress(inout headers_t hdr, inout standard_metadata_t standard_metadata) {
    bit<32> delta = 0;

    action send_from(mac_address_t mac, ipv4_address_t address) {
        delta = address_delta(hdr.ipv4.dst_addr, address);
        hdr.ipv4.header_checksum = updated_checksum(hdr.ipv4.header_checksum, delta);
        hdr.udp.checksum = updated_udp_checksum(hdr.udp.checksum, delta);
        hdr.ethernet.src_addr = mac;
        hdr.ipv4.dst_addr = address;
    }

    // `exit` skips ViewerAddress, so that the viewer's counter does not count the dropped copy.
    action drop_no_address() {
        mark_to_drop(standard_metadata);
        exit;
    }

    // The controller writes this table together with `own_addresses`, which only ingress can apply. A hit gives the
    // SFU's address on the port; a miss means that the SFU has no address there. The table's size allows an entry for
    // every port.
    table port_addresses {
        key = { standard_metadata.egress_port: exact @name("egress_port"); }
        actions = { send_from; @defaultonly drop_no_address; }
        const default_action = drop_no_address();
        size = 512;
    }

    apply { port_addresses.apply(); }
}

#endif
