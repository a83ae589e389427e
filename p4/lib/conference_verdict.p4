// Carries out the verdict on an arriving packet, and counts the verdicts: every packet from a port gets exactly one
// verdict, so the counters of `verdicts` add up to the number of arrived packets.
#ifndef CONFERENCE_VERDICT_P4
#define CONFERENCE_VERDICT_P4

#include <core.p4>
#include <v1model.p4>
#include "conference_headers.p4"

enum bit<8> conference_verdict_t {
    SERVE = 0, // media or a report of a leg that is signed in: one copy for each receiver
    ANSWER_ARP = 1, // an ARP request for an own address
    ANSWER_NEIGHBOUR = 2, // a neighbour solicitation for an own address
    ANSWER_ECHO = 3, // an ICMP or ICMPv6 echo request to an own address
    ANSWER_HELLO = 4, // a hello of a leg from the socket that is signed in for it
    TO_CONTROLLER = 5, // any other hello
    DROP_TRUNCATED = 6, // ends inside a header
    DROP_NOT_IP = 7, // neither IPv4, IPv6 nor ARP
    DROP_VLAN = 8, // in a VLAN: a tag with another id than 0, a second tag, or a service tag
    DROP_ARP = 9, // ARP that does not concern the switch
    DROP_MALFORMED_IP = 10, // version, header length or total length cannot be right
    DROP_NOT_FOR_US = 11, // not sent to an own MAC and IP address
    DROP_IPV4_CHECKSUM = 12,
    DROP_IPV4_OPTIONS = 13,
    DROP_FRAGMENT = 14, // a piece of a packet
    DROP_NOT_UDP = 15, // another protocol, or an IPv6 packet with other extension headers
    DROP_UDP_LENGTH = 16, // below 8, or more than the IP packet holds
    DROP_UDP_CHECKSUM = 17, // none in an IPv6 packet (RFC 8200, section 8.1)
    DROP_TTL_EXPIRED = 18, // 0 or 1 on arrival (RFC 1812, section 5.3.1)
    DROP_OTHER_UDP_PORT = 19, // not to the port for media
    DROP_HELLO_RATE = 20, // more hellos than the controller reads
    DROP_NOT_SIGNED_IN = 21, // from a socket that is not signed in, or not with this MAC
    DROP_POLICED = 22, // more than the leg's rate
    DROP_NOT_RTP = 23, // neither RTP nor RTCP on a leg for these
    DROP_NO_RECEIVER = 24 // nobody has subscribed
}

// Reads `verdict`. For a packet to drop, writes egress_spec and mcast_grp.
control ConferenceVerdictCount(
    inout conference_verdict_t verdict,
    inout standard_metadata_t standard_metadata
) {
    direct_counter(CounterType.packets_and_bytes) verdict_packets;

    action serve() { }
    action answer_arp() { }
    action answer_neighbour() { }
    action answer_echo() { }
    action answer_hello() { }
    action to_controller() { }
    action drop_truncated() { mark_to_drop(standard_metadata); }
    action drop_not_ip() { mark_to_drop(standard_metadata); }
    action drop_vlan() { mark_to_drop(standard_metadata); }
    action drop_arp() { mark_to_drop(standard_metadata); }
    action drop_malformed_ip() { mark_to_drop(standard_metadata); }
    action drop_not_for_us() { mark_to_drop(standard_metadata); }
    action drop_ipv4_checksum() { mark_to_drop(standard_metadata); }
    action drop_ipv4_options() { mark_to_drop(standard_metadata); }
    action drop_fragment() { mark_to_drop(standard_metadata); }
    action drop_not_udp() { mark_to_drop(standard_metadata); }
    action drop_udp_length() { mark_to_drop(standard_metadata); }
    action drop_udp_checksum() { mark_to_drop(standard_metadata); }
    action drop_ttl_expired() { mark_to_drop(standard_metadata); }
    action drop_other_udp_port() { mark_to_drop(standard_metadata); }
    action drop_hello_rate() { mark_to_drop(standard_metadata); }
    action drop_not_signed_in() { mark_to_drop(standard_metadata); }
    action drop_policed() { mark_to_drop(standard_metadata); }
    action drop_not_rtp() { mark_to_drop(standard_metadata); }
    action drop_no_receiver() { mark_to_drop(standard_metadata); }

    // Has only const entries. Every verdict has an entry, whose counter counts the verdict.
    table verdicts {
        key = { verdict: exact @name("verdict"); }
        actions = {
            serve;
            answer_arp;
            answer_neighbour;
            answer_echo;
            answer_hello;
            to_controller;
            drop_truncated;
            drop_not_ip;
            drop_vlan;
            drop_arp;
            drop_malformed_ip;
            drop_not_for_us;
            drop_ipv4_checksum;
            drop_ipv4_options;
            drop_fragment;
            drop_not_udp;
            drop_udp_length;
            drop_udp_checksum;
            drop_ttl_expired;
            drop_other_udp_port;
            drop_hello_rate;
            drop_not_signed_in;
            drop_policed;
            drop_not_rtp;
            drop_no_receiver;
            @defaultonly NoAction;
        }
        const entries = {
            conference_verdict_t.SERVE: serve();
            conference_verdict_t.ANSWER_ARP: answer_arp();
            conference_verdict_t.ANSWER_NEIGHBOUR: answer_neighbour();
            conference_verdict_t.ANSWER_ECHO: answer_echo();
            conference_verdict_t.ANSWER_HELLO: answer_hello();
            conference_verdict_t.TO_CONTROLLER: to_controller();
            conference_verdict_t.DROP_TRUNCATED: drop_truncated();
            conference_verdict_t.DROP_NOT_IP: drop_not_ip();
            conference_verdict_t.DROP_VLAN: drop_vlan();
            conference_verdict_t.DROP_ARP: drop_arp();
            conference_verdict_t.DROP_MALFORMED_IP: drop_malformed_ip();
            conference_verdict_t.DROP_NOT_FOR_US: drop_not_for_us();
            conference_verdict_t.DROP_IPV4_CHECKSUM: drop_ipv4_checksum();
            conference_verdict_t.DROP_IPV4_OPTIONS: drop_ipv4_options();
            conference_verdict_t.DROP_FRAGMENT: drop_fragment();
            conference_verdict_t.DROP_NOT_UDP: drop_not_udp();
            conference_verdict_t.DROP_UDP_LENGTH: drop_udp_length();
            conference_verdict_t.DROP_UDP_CHECKSUM: drop_udp_checksum();
            conference_verdict_t.DROP_TTL_EXPIRED: drop_ttl_expired();
            conference_verdict_t.DROP_OTHER_UDP_PORT: drop_other_udp_port();
            conference_verdict_t.DROP_HELLO_RATE: drop_hello_rate();
            conference_verdict_t.DROP_NOT_SIGNED_IN: drop_not_signed_in();
            conference_verdict_t.DROP_POLICED: drop_policed();
            conference_verdict_t.DROP_NOT_RTP: drop_not_rtp();
            conference_verdict_t.DROP_NO_RECEIVER: drop_no_receiver();
        }
        const default_action = NoAction();
        counters = verdict_packets;
        size = 25;
    }

    apply { verdicts.apply(); }
}

#endif
