// The sockets that are signed in to a conference. A host signs in a socket with datagrams called hellos. A socket that
// is signed in is a leg of the conference; the entries say which leg each socket is, and who receives what it sends.
#ifndef SIGNED_IN_P4
#define SIGNED_IN_P4

#include <core.p4>
#include <v1model.p4>
#include "conference_headers.p4"
#include "conference_verdict.p4"

// A result of v1model's meters (RFC 2698).
const bit<2> METER_RED = 2;

// What a leg sends.
const bit<1> ANY_DATAGRAM = 0;
const bit<1> RTP_ONLY = 1;

const bit<32> HELLO_SOURCES = 4096;
const bit<32> HELLO_PORTS = 512;

// Reads the headers, `source` and ingress_port of a datagram with verdict SERVE. Writes `verdict` and, if the datagram
// is still to be served, `leg`, `group` and priority.
control SignedIn(
    inout conference_headers_t hdr,
    inout conference_verdict_t verdict,
    inout ipv6_address_t source,
    inout leg_t leg,
    inout group_t group,
    inout standard_metadata_t standard_metadata
) {
    direct_counter(CounterType.packets_and_bytes) leg_packets;
    direct_meter<bit<2>>(MeterType.bytes) leg_rate;
    // These meters limit the hellos that go to the controller: first for each hash of a sender's address, so that one
    // sender does not keep the others out, then for each port.
    meter(HELLO_SOURCES, MeterType.packets) hello_source_rate;
    meter(HELLO_PORTS, MeterType.packets) hello_port_rate;
    group_t media_group = 0;
    group_t report_group = 0;
    bit<3> leg_priority = 0;
    bit<1> sends = 0;
    bit<2> color = 0;
    bit<32> cell = 0;
    bool is_known = false;
    bool is_report = false;

    // A group number of 0 means a group without members.
    action set_leg(
        leg_t number,
        group_t media,
        group_t reports,
        bit<3> priority,
        bit<1> kind
    ) {
        leg = number;
        media_group = media;
        report_group = reports;
        leg_priority = priority;
        sends = kind;
        leg_rate.read(color);
    }

    // The controller writes an entry when a host has proved, by hellos from its socket's own address, that the socket
    // is a leg. The key also contains the MAC of the host's frames, so somebody who forges the address can use up the
    // leg's rate only if he knows the MAC too. An IPv4 address is ::ffff:a.b.c.d.
    table sockets {
        key = {
            standard_metadata.ingress_port: exact @name("ingress_port");
            source: exact @name("address");
            hdr.udp.src_port: exact @name("udp_port");
            hdr.ethernet.src_addr: exact @name("mac");
        }
        actions = { set_leg; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 32768;
        counters = leg_packets;
        meters = leg_rate;
    }

    apply {
        is_known = sockets.apply().hit;
        if (hdr.hello.isValid()) {
            verdict = conference_verdict_t.ANSWER_HELLO;
            if (
                !is_known
                || color == METER_RED
                || hdr.hello.kind != HELLO
                || hdr.hello.version != HELLO_VERSION
                || hdr.hello.leg != 16w0 ++ leg
            ) {
                // This includes hellos for another leg: a socket that is bound to one leg may sign in to another.
                verdict = conference_verdict_t.TO_CONTROLLER;
                hash(cell, HashAlgorithm.crc16, 32w0, { source }, HELLO_SOURCES);
                hello_source_rate.execute_meter(cell, color);
                if (color != METER_RED) {
                    hello_port_rate.execute_meter((bit<32>) standard_metadata.ingress_port, color);
                }
                if (color == METER_RED) {
                    verdict = conference_verdict_t.DROP_HELLO_RATE;
                }
            }
        } else if (!is_known) {
            verdict = conference_verdict_t.DROP_NOT_SIGNED_IN;
        } else if (color == METER_RED) {
            verdict = conference_verdict_t.DROP_POLICED;
        } else {
            // RFC 5761, section 4: the second byte of RTCP is 192 to 223.
            is_report = hdr.datagram.isValid()
                && hdr.datagram.first[7:6] == 2
                && hdr.datagram.second[7:5] == 6;
            if (sends == RTP_ONLY && !(hdr.datagram.isValid() && hdr.datagram.first[7:6] == 2)) {
                verdict = conference_verdict_t.DROP_NOT_RTP;
            } else {
                group = sends == RTP_ONLY && is_report ? report_group : media_group;
                standard_metadata.priority = leg_priority;
                if (group == 0) {
                    verdict = conference_verdict_t.DROP_NO_RECEIVER;
                }
            }
        }
    }
}

#endif
