// What the network says of itself by ARP, noted for the controller: it looks whether a viewer is
// heard with another MAC address than its copies go to. Nothing is served or sent by these notes.
#ifndef NEIGHBOUR_P4
#define NEIGHBOUR_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

// Two hosts whose addresses have one hash share a cell, and the later one is noted; the controller
// asks every viewer from time to time all the same. Enough for a network of 4,094 hosts (a /20).
const bit<32> HEARD_CELLS = 4096;

// Of every ARP packet, request, reply or announcement, whoever it is for: where its sender is.
// Reads the ARP header and ingress_port.
control HeardNeighbours(in headers_t hdr, in standard_metadata_t standard_metadata) {
    // Read by the controller, index: hash of the IPv4 address. Port and IPv4 address in one cell;
    // 0: nobody was heard.
    register<bit<64>>(HEARD_CELLS) heard_addresses;
    register<mac_address_t>(HEARD_CELLS) heard_macs;
    bit<32> cell = 0;

    apply {
        if (
            hdr.arp.isValid()
            && hdr.arp.hardware_type == ARP_HARDWARE_ETHERNET
            && hdr.arp.protocol_type == ETHER_TYPE_IPV4
            && hdr.arp.hardware_len == 6
            && hdr.arp.protocol_len == 4
        ) {
            hash(
                cell,
                HashAlgorithm.crc16,
                32w0,
                { hdr.arp.sender_protocol_addr },
                HEARD_CELLS
            );
            heard_addresses.write(
                cell,
                23w0 ++ standard_metadata.ingress_port ++ hdr.arp.sender_protocol_addr
            );
            heard_macs.write(cell, hdr.arp.sender_hardware_addr);
        }
    }
}

#endif
