// Records the senders of ARP packets for the controller, which finds out from the records whether a viewer's MAC
// address differs from the MAC address to which the viewer's copies are sent. The program itself does not use the
// records.
#ifndef NEIGHBOUR_P4
#define NEIGHBOUR_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

// Two hosts whose addresses have the same hash share a cell, which records the host that sent last. The controller also
// asks every viewer from time to time. The number of cells is enough for 4,094 hosts (a /20 network).
const bit<32> HEARD_CELLS = 4096;

// Records the sender of every ARP packet (request, reply or announcement, to any target): its
// addresses and its port. Reads the ARP header and ingress_port.
control HeardNeighbours(in headers_t hdr, in standard_metadata_t standard_metadata) {
    // Read by the controller. The index is the hash of the sender's IPv4 address. A cell of the
    // first register has port and IPv4 address, or 0 if it has no record.
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
