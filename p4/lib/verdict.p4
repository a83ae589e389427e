// Carries out the verdict on an arriving packet, and counts the verdicts: every packet from a port gets exactly one
// verdict, so the counters of `verdicts` add up to the number of arrived packets.
#ifndef VERDICT_P4
#define VERDICT_P4

#include <core.p4>
#include <v1model.p4>
#include "headers.p4"

enum bit<8> verdict_t {
    SERVE = 0, // a presenter's packet: one copy a viewer
    ANSWER_ARP = 1, // an ARP request for the SFU's own address
    ANSWER_ECHO = 2, // an ICMP echo request to the SFU's own address
    TO_CONTROLLER = 3, // an ARP reply to the SFU: the controller is looking for a neighbour
    DROP_TRUNCATED = 4, // ends inside a header
    DROP_NOT_IPV4 = 5, // neither IPv4 nor ARP
    DROP_ARP = 6, // ARP that does not concern the SFU
    DROP_MALFORMED_IPV4 = 7, // version, header length or total length cannot be right
    DROP_NOT_FOR_US = 8, // not sent to the SFU's own MAC and IPv4 address
    DROP_IPV4_CHECKSUM = 9,
    DROP_IPV4_OPTIONS = 10,
    DROP_FRAGMENT = 11,
    DROP_NOT_UDP = 12,
    DROP_UDP_LENGTH = 13, // below 8, or more than the IPv4 packet holds
    DROP_TTL_EXPIRED = 14, // 0 or 1 on arrival (RFC 1812, section 5.3.1)
    DROP_UNKNOWN_SENDER = 15, // not the presenter of any group
    DROP_WRONG_PRESENTER_MAC = 16, // a presenter's IPv4 address with another station's MAC
    DROP_EMPTY_GROUP = 17, // a group without viewers
    DROP_VLAN = 18 // in a VLAN: a tag with another id than 0, a second tag, or a service tag
}

// Reads `verdict`. For a packet to drop, writes egress_spec and mcast_grp.
control VerdictCount(inout verdict_t verdict, inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) verdict_packets;

    action serve() { }
    action answer_arp() { }
    action answer_echo() { }
    action to_controller() { }
    action drop_truncated() { mark_to_drop(standard_metadata); }
    action drop_not_ipv4() { mark_to_drop(standard_metadata); }
    action drop_arp() { mark_to_drop(standard_metadata); }
    action drop_malformed_ipv4() { mark_to_drop(standard_metadata); }
    action drop_not_for_us() { mark_to_drop(standard_metadata); }
    action drop_ipv4_checksum() { mark_to_drop(standard_metadata); }
    action drop_ipv4_options() { mark_to_drop(standard_metadata); }
    action drop_fragment() { mark_to_drop(standard_metadata); }
    action drop_not_udp() { mark_to_drop(standard_metadata); }
    action drop_udp_length() { mark_to_drop(standard_metadata); }
    action drop_ttl_expired() { mark_to_drop(standard_metadata); }
    action drop_unknown_sender() { mark_to_drop(standard_metadata); }
    action drop_wrong_presenter_mac() { mark_to_drop(standard_metadata); }
    action drop_empty_group() { mark_to_drop(standard_metadata); }
    action drop_vlan() { mark_to_drop(standard_metadata); }

    // Has only const entries. Every verdict has an entry, whose counter counts the verdict.
    table verdicts {
        key = { verdict: exact @name("verdict"); }
        actions = {
            serve;
            answer_arp;
            answer_echo;
            to_controller;
            drop_truncated;
            drop_not_ipv4;
            drop_arp;
            drop_malformed_ipv4;
            drop_not_for_us;
            drop_ipv4_checksum;
            drop_ipv4_options;
            drop_fragment;
            drop_not_udp;
            drop_udp_length;
            drop_ttl_expired;
            drop_unknown_sender;
            drop_wrong_presenter_mac;
            drop_empty_group;
            drop_vlan;
            @defaultonly NoAction;
        }
        const entries = {
            verdict_t.SERVE: serve();
            verdict_t.ANSWER_ARP: answer_arp();
            verdict_t.ANSWER_ECHO: answer_echo();
            verdict_t.TO_CONTROLLER: to_controller();
            verdict_t.DROP_TRUNCATED: drop_truncated();
            verdict_t.DROP_NOT_IPV4: drop_not_ipv4();
            verdict_t.DROP_ARP: drop_arp();
            verdict_t.DROP_MALFORMED_IPV4: drop_malformed_ipv4();
            verdict_t.DROP_NOT_FOR_US: drop_not_for_us();
            verdict_t.DROP_IPV4_CHECKSUM: drop_ipv4_checksum();
            verdict_t.DROP_IPV4_OPTIONS: drop_ipv4_options();
            verdict_t.DROP_FRAGMENT: drop_fragment();
            verdict_t.DROP_NOT_UDP: drop_not_udp();
            verdict_t.DROP_UDP_LENGTH: drop_udp_length();
            verdict_t.DROP_TTL_EXPIRED: drop_ttl_expired();
            verdict_t.DROP_UNKNOWN_SENDER: drop_unknown_sender();
            verdict_t.DROP_WRONG_PRESENTER_MAC: drop_wrong_presenter_mac();
            verdict_t.DROP_EMPTY_GROUP: drop_empty_group();
            verdict_t.DROP_VLAN: drop_vlan();
        }
        const default_action = NoAction();
        counters = verdict_packets;
    }

    apply { verdicts.apply(); }
}

#endif
