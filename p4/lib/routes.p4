// Routes packets that are sent to one host.
#ifndef ROUTES_P4
#define ROUTES_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "checksum.p4"
#include "verdict.p4"
#include "udp_parser.p4"

// One hop of a router. Writes the headers, the IPv4 checksum and egress_spec, and `verdict` if the
// packet is dropped.
control Routes(
    inout udp_headers_t hdr,
    inout verdict_t verdict,
    inout standard_metadata_t standard_metadata
) {
    TtlDecrement() ttl_decrement;

    // The frame was sent to the switch, so its destination MAC is the switch's own.
    action ipv4_forward(mac_address_t dst_addr, port_t port) {
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = dst_addr;
        standard_metadata.egress_spec = port;
    }

    action drop() { verdict = verdict_t.DROP_NOT_FOR_US; }

    // The controller writes the entries. A hit gives the MAC and port of the destination host or the next router; a
    // miss means that there is no route.
    table ipv4_routes {
        key = { hdr.ipv4.dst_addr: lpm @name("dst_addr"); }
        actions = { ipv4_forward; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        // RFC 1812, section 5.3.4: link-layer broadcasts and multicasts are not forwarded.
        if (hdr.ethernet.dst_addr[40:40] == 1) {
            verdict = verdict_t.DROP_NOT_FOR_US;
        } else if (hdr.ipv4.ttl <= 1) {
            verdict = verdict_t.DROP_TTL_EXPIRED;
        } else {
            ipv4_routes.apply();
            if (verdict == verdict_t.SERVE) {
                ttl_decrement.apply(hdr.ipv4);
            }
        }
    }
}

#endif
