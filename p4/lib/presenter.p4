// Who may present, and to which group.
#ifndef PRESENTER_P4
#define PRESENTER_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "checksum.p4"
#include "verdict.p4"

// A presenter is its IPv4 address: one stream a host. Reads `verdict`; writes `group` and, where
// nobody listens or another station uses the presenter's address, `verdict`.
control PresenterLookup(
    inout headers_t hdr,
    inout verdict_t verdict,
    inout group_t group
) {
    direct_counter(CounterType.packets_and_bytes) presenter_packets;
    mac_address_t presenter_mac = 0;

    // mac 0: the presenter may send with any MAC (it may stand behind a router).
    action set_group(group_t group_id, mac_address_t mac) {
        group = group_id;
        presenter_mac = mac;
    }

    // Written by the controller: the only home of "who presents to which group". Hit: a
    // presenter; miss: an unknown sender. Exact, so the cost is the same for one group and for
    // all 65,535. Sized for every group id, and as many again that replace them.
    table presenters {
        key = { hdr.ipv4.src_addr: exact @name("src_addr"); }
        actions = { set_group; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 131072;
        counters = presenter_packets;
    }

    apply {
        if (!presenters.apply().hit) {
            verdict = verdict_t.DROP_UNKNOWN_SENDER;
        } else if (presenter_mac != 0 && presenter_mac != hdr.ethernet.src_addr) {
            verdict = verdict_t.DROP_WRONG_PRESENTER_MAC;
        }
    }
}

// A stream is its sender's IPv4 address and the UDP port it is sent to: a host may present
// several, one for each camera or quality. Reads and writes what PresenterLookup does.
control StreamLookup(
    inout headers_t hdr,
    inout verdict_t verdict,
    inout group_t group
) {
    direct_counter(CounterType.packets_and_bytes) stream_packets;
    mac_address_t presenter_mac = 0;

    // mac 0: the presenter may send with any MAC (it may stand behind a router).
    action set_group(group_t group_id, mac_address_t mac) {
        group = group_id;
        presenter_mac = mac;
    }

    // Written by the controller: the only home of "which stream goes to which group". Hit: a
    // stream; miss: an unknown sender. Sized as `presenters`.
    table streams {
        key = {
            hdr.ipv4.src_addr: exact @name("src_addr");
            hdr.udp.dst_port: exact @name("udp_dst_port");
        }
        actions = { set_group; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 131072;
        counters = stream_packets;
    }

    apply {
        if (!streams.apply().hit) {
            verdict = verdict_t.DROP_UNKNOWN_SENDER;
        } else if (presenter_mac != 0 && presenter_mac != hdr.ethernet.src_addr) {
            verdict = verdict_t.DROP_WRONG_PRESENTER_MAC;
        }
    }
}

#endif
