// Authenticated ordered multicast in the network, after NeoBFT's idea: a sequencer stamps each request
// of a replica group with epoch and sequence number, multicasts it, and proves to each replica by a
// keyed code that the stamp is its own. The code here is a CRC with the key, a stand-in for an HMAC.
#include "include/headers.p4"

#define GROUPS 64
const bit<16> ORDERED_PORT = 7300;
const bit<16> GAP_PORT = 7301;

enum bit<8> Kind {
    REQUEST = 1,
    ORDERED = 2,
    FAILOVER = 3
}

header ordered_t {
    Kind    kind;
    bit<8>  group;
    bit<16> epoch;
    bit<64> sequence;
}

header authenticator_t {
    bit<8>  replica;
    bit<24> reserved;
    bit<32> code;
}

struct headers_t {
    ethernet_t      ethernet;
    ipv4_t          ipv4;
    udp_t           udp;
    ordered_t       ordered;
    authenticator_t authenticator;
}

struct metadata_t {
    bit<32> digest_of_request;
    bit<16> own_epoch;
}

parser SequencerParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.protocol) {
            PROTOCOL_UDP: parse_udp;
            default: accept;
        }
    }

    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port) {
            ORDERED_PORT: parse_ordered;
            default: accept;
        }
    }

    state parse_ordered {
        packet.extract(hdr.ordered);
        transition select(hdr.ordered.kind) {
            Kind.ORDERED: parse_authenticator;
            default: accept;
        }
    }

    state parse_authenticator {
        packet.extract(hdr.authenticator);
        transition accept;
    }
}

#include "include/ipv4_checksum.p4"

// Gives the next number of the group in the epoch. Writes ordered and digest_of_request.
control Sequencing(inout headers_t hdr, inout metadata_t meta) {
    register<bit<64>>(GROUPS) next_sequence;

    apply {
        @atomic {
            bit<64> sequence;
            next_sequence.read(sequence, (bit<32>) hdr.ordered.group);
            sequence = sequence + 1;
            next_sequence.write((bit<32>) hdr.ordered.group, sequence);
            hdr.ordered.sequence = sequence;
        }
        hdr.ordered.epoch = meta.own_epoch;
        hdr.ordered.kind = Kind.ORDERED;
    }
}

control SequencerIngress(inout headers_t hdr, inout metadata_t meta,
                         inout standard_metadata_t standard_metadata) {
    Sequencing() sequencing;
    direct_counter(CounterType.packets) by_group;

    action drop() { mark_to_drop(standard_metadata); }

    action serve(bit<16> multicast_group, bit<16> epoch) {
        by_group.count();
        standard_metadata.mcast_grp = multicast_group;
        meta.own_epoch = epoch;
    }

    // The groups that this switch is the sequencer of. A miss: someone else's, not to be stamped.
    table sequenced_groups {
        key = { hdr.ordered.group: exact; }
        actions = { serve; drop; }
        default_action = drop();
        counters = by_group;
        size = GROUPS;
    }

    action forward(port_id_t port) { standard_metadata.egress_spec = port; }

    table routes {
        key = { hdr.ipv4.dst_addr: lpm; }
        actions = { forward; drop; }
        default_action = drop();
        size = 256;
    }

    apply {
        if (!hdr.ipv4.isValid() || standard_metadata.checksum_error == 1) {
            drop();
            exit;
        }
        if (hdr.ordered.isValid() && hdr.ordered.kind == Kind.REQUEST) {
            if (sequenced_groups.apply().hit) { sequencing.apply(hdr, meta); }
        } else if (hdr.ordered.isValid() && hdr.ordered.kind == Kind.ORDERED) {
            // A stamp from outside is a forgery or a loop.
            drop();
        } else {
            routes.apply();
        }
    }
}

control SequencerEgress(inout headers_t hdr, inout metadata_t meta,
                        inout standard_metadata_t standard_metadata) {
    action drop() { mark_to_drop(standard_metadata); }

    // The code covers what the replica must be able to trust: group, epoch, number, and its own key.
    action authenticate(bit<8> replica, bit<64> key, ipv4_addr_t address, mac_addr_t mac) {
        bit<32> code;
        hash(code, HashAlgorithm.crc32, 32w0,
             { key, hdr.ordered.group, hdr.ordered.epoch, hdr.ordered.sequence, hdr.ipv4.src_addr, replica },
             33w0x100000000);
        hdr.authenticator.setValid();
        hdr.authenticator.replica = replica;
        hdr.authenticator.reserved = 0;
        hdr.authenticator.code = code;
        hdr.ipv4.dst_addr = address;
        hdr.ethernet.dst_addr = mac;
        hdr.ipv4.total_length = hdr.ipv4.total_length + 8;
        hdr.udp.length = hdr.udp.length + 8;
        hdr.udp.checksum = 0;
    }

    table replicas {
        key = {
            hdr.ordered.group: exact;
            standard_metadata.egress_rid: exact;
        }
        actions = { authenticate; drop; }
        default_action = drop();
        size = 1024;
    }

    apply {
        if (hdr.ordered.isValid() && hdr.ordered.kind == Kind.ORDERED) { replicas.apply(); }
    }
}

control SequencerDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(SequencerParser(), VerifyIpv4(), SequencerIngress(), SequencerEgress(), UpdateIpv4(),
         SequencerDeparser()) main;
