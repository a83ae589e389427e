// A conference whose participants join by themselves. Each of a host's sockets is a *leg*: it sends one track (or
// nothing) and receives others' tracks (or none). A host signs its socket in with datagrams called hellos, which the
// controller checks; only then does the switch forward the leg's packets, up to the leg's rate. Media goes to the
// track's multicast group. Reports (RTCP) go to the leg's report group: a publisher's reports go to the legs that
// receive its track, and a receiver's reports go to the publishers of the tracks that it receives.
//
//   arrival -> signed in -> multicast group -> replica: its receiver's addresses -> leaves

#include <core.p4>
#include <v1model.p4>
#include "lib/conference_headers.p4"
#include "lib/conference_verdict.p4"

struct metadata_t {
    conference_verdict_t verdict;
    mac_address_t own_mac;
    ipv6_address_t source;
    leg_t leg;
    group_t group;
}

#include "lib/conference_parser.p4"
#include "lib/conference_arrival.p4"
#include "lib/signed_in.p4"
#include "lib/conference_answer.p4"
#include "lib/receivers.p4"

control ConferenceIngress(
    inout conference_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    ConferenceArrival() arrival;
    SignedIn() signed_in;
    ConferenceVerdictCount() verdict_count;
    ConferenceAnswer() answer;
    ConferencePacketOut() packet_out;
    TtlDecrement() ttl_decrement;

    apply {
        if (hdr.packet_out.isValid()) {
            packet_out.apply(hdr, standard_metadata);
        } else {
            arrival.apply(hdr, meta.verdict, meta.own_mac, meta.source, standard_metadata);
            if (meta.verdict == conference_verdict_t.SERVE) {
                signed_in.apply(
                    hdr,
                    meta.verdict,
                    meta.source,
                    meta.leg,
                    meta.group,
                    standard_metadata
                );
            }
            verdict_count.apply(meta.verdict, standard_metadata);
            answer.apply(hdr, meta.verdict, meta.own_mac, standard_metadata);
            if (meta.verdict == conference_verdict_t.SERVE) {
                if (hdr.ipv4.isValid()) {
                    ttl_decrement.apply(hdr.ipv4);
                } else {
                    hdr.ipv6.hop_limit = hdr.ipv6.hop_limit - 1;
                }
                standard_metadata.mcast_grp = meta.group;
            }
        }
    }
}

control ConferenceEgress(
    inout conference_headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    Receivers() receivers;

    apply {
        if (standard_metadata.instance_type == INSTANCE_REPLICA) {
            receivers.apply(hdr, standard_metadata);
        }
    }
}

V1Switch(
    ConferenceParser(),
    ConferenceVerification(),
    ConferenceIngress(),
    ConferenceEgress(),
    ConferenceNoComputation(),
    ConferenceDeparser()
) main;
