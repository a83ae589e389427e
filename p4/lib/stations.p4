// Ordinary Ethernet forwarding by static entries, for frames that no other control has handled.
#ifndef STATIONS_P4
#define STATIONS_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

// The multicast group of all ports. Egress drops the copy to the port where the frame arrived.
const group_t FLOOD_GROUP = 0xffff;

// Reads the destination; writes egress_spec or mcast_grp.
control Stations(inout ethernet_t ethernet, inout standard_metadata_t standard_metadata) {
    action forward(port_t port) { standard_metadata.egress_spec = port; }

    action flood() { standard_metadata.mcast_grp = FLOOD_GROUP; }

    // The controller writes the entries. A hit gives one port; a miss means an unknown station, or a group address.
    table stations {
        key = { ethernet.dst_addr: exact @name("dst_addr"); }
        actions = { forward; @defaultonly flood; }
        const default_action = flood();
        size = 16384;
    }

    apply { stations.apply(); }
}

#endif
