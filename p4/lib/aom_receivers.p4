// The last step of authenticated ordered multicast: each copy that multicast made of a packet gets the addresses of its
// receiver.
#ifndef AOM_RECEIVERS_P4
#define AOM_RECEIVERS_P4

#include <core.p4>
#include <v1model.p4>
#include "aom_headers.p4"
#include "checksum.p4"

// Reads egress_rid; writes Ethernet, IPv4 and UDP destination of a copy. A copy has no UDP
// checksum: ingress has set it to 0, since tags or signatures protect the message better.
control AomReceivers(inout aom_headers_t hdr, inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) receiver_copies;

    action set_receiver(
        mac_address_t own_mac,
        mac_address_t mac,
        ipv4_address_t address,
        udp_port_t udp_port
    ) {
        receiver_copies.count();
        hdr.ethernet.src_addr = own_mac;
        hdr.ethernet.dst_addr = mac;
        hdr.ipv4.header_checksum = updated_checksum(
            hdr.ipv4.header_checksum,
            address_delta(hdr.ipv4.dst_addr, address)
        );
        hdr.ipv4.dst_addr = address;
        hdr.udp.dst_port = udp_port;
    }

    action drop() { mark_to_drop(standard_metadata); }

    // Written by the controller. A copy's instance is its receiver's number in the group. Miss: the
    // receiver was removed while the copy was in the switch.
    table receivers {
        key = {
            hdr.aom.group: exact @name("group");
            standard_metadata.egress_rid: exact @name("receiver");
        }
        actions = { set_receiver; @defaultonly drop; }
        const default_action = drop();
        counters = receiver_copies;
        size = 65536;
    }

    apply { receivers.apply(); }
}

#endif
