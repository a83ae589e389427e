// Finds the group of viewers that receive a presenter's packet.
#ifndef PRESENTER_P4
#define PRESENTER_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "checksum.p4"
#include "verdict.p4"

// A presenter is identified by its IPv4 address, so a host has only one stream. Writes `group`, and `verdict` if no
// group has this presenter or another station uses the presenter's address.
control PresenterLookup(
    inout headers_t hdr,
    inout verdict_t verdict,
    inout group_t group
) {
    direct_counter(CounterType.packets_and_bytes) presenter_packets;
    mac_address_t presenter_mac = 0;

    // mac 0: the presenter may send with any MAC (it may be behind a router).
    action set_group(group_t group_id, mac_address_t mac) {
        group = group_id;
        presenter_mac = mac;
    }

    // The controller writes the group of each presenter, which is stored only here. A miss means an unknown sender. The
    // match is exact, so a lookup costs the same for one group and for 65,535. The table has room for one presenter for
    // every group id, and for the same number of new presenters that replace these.
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

// A stream is identified by its sender's IPv4 address and its UDP destination port: a host may
// present several streams, one for each camera or quality. Writes the same as PresenterLookup.
control StreamLookup(
    inout headers_t hdr,
    inout verdict_t verdict,
    inout group_t group
) {
    direct_counter(CounterType.packets_and_bytes) stream_packets;
    mac_address_t presenter_mac = 0;

    // mac 0: the presenter may send with any MAC (it may be behind a router).
    action set_group(group_t group_id, mac_address_t mac) {
        group = group_id;
        presenter_mac = mac;
    }

    // The controller writes the group of each stream, which is stored only here. A miss means an unknown sender. The
    // table has the size of `presenters`.
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
