// A learning Ethernet switch. Unknown sources go to the control plane as digests, which answers with
// entries in `sources` and `destinations`; unknown destinations and groups are flooded.
#include "include/headers.p4"

const bit<16> FLOOD_GROUP = 1;
const bit<32> LEARN_RECEIVER = 1;
const bit<48> GROUP_BIT = 0x010000000000;

struct headers_t {
    ethernet_t ethernet;
}

struct metadata_t {
    bool is_known_source;
    bool is_moved;
}

struct learn_t {
    mac_addr_t address;
    port_id_t  port;
    bit<1>     is_move;
}

parser SwitchParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

// Who sent this? Reads ethernet.src_addr and the ingress port; tells the control plane what is new.
control SourceLearning(in headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    direct_counter(CounterType.packets_and_bytes) from_source;

    action source_at(port_id_t port) {
        from_source.count();
        meta.is_known_source = true;
        meta.is_moved = port != standard_metadata.ingress_port;
    }

    action unknown_source() {
        meta.is_known_source = false;
        meta.is_moved = false;
    }

    // Written by the control plane when it learns. A miss is an address that it has not seen.
    table sources {
        key = { hdr.ethernet.src_addr: exact; }
        actions = { source_at; @defaultonly unknown_source; }
        const default_action = unknown_source();
        counters = from_source;
        size = 4096;
    }

    apply {
        sources.apply();
        if (!meta.is_known_source || meta.is_moved) {
            learn_t news = { hdr.ethernet.src_addr, standard_metadata.ingress_port, (bit<1>) meta.is_moved };
            digest(LEARN_RECEIVER, news);
        }
    }
}

// Where to? Writes egress_spec or mcast_grp.
control Forwarding(in headers_t hdr, inout standard_metadata_t standard_metadata) {
    action forward(port_id_t port) { standard_metadata.egress_spec = port; }

    action flood() { standard_metadata.mcast_grp = FLOOD_GROUP; }

    action discard() { mark_to_drop(standard_metadata); }

    // Written by the control plane when it learns; a miss floods.
    table destinations {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { forward; discard; flood; }
        default_action = flood();
        size = 4096;
    }

    apply {
        if (hdr.ethernet.dst_addr & GROUP_BIT != 0) {
            flood();
        } else {
            destinations.apply();
            if (standard_metadata.egress_spec == standard_metadata.ingress_port
                    && standard_metadata.mcast_grp == 0) {
                discard();
            }
        }
    }
}

control SwitchIngress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    SourceLearning() source_learning;
    Forwarding() forwarding;
    counter(512, CounterType.packets_and_bytes) received;

    action refuse() { mark_to_drop(standard_metadata); }

    // Ports that the operator has shut; a hit drops.
    table shut_ports {
        key = { standard_metadata.ingress_port: exact; }
        actions = { refuse; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    apply {
        received.count((bit<32>) standard_metadata.ingress_port);
        if (!hdr.ethernet.isValid()) {
            mark_to_drop(standard_metadata);
            return;
        }
        switch (shut_ports.apply().action_run) {
            refuse: { exit; }
            default: { }
        }
        // 01:80:c2:00:00:00 to 0f are for the switch itself, never to be forwarded (IEEE 802.1Q).
        if (hdr.ethernet.dst_addr[47:4] == 0x0180c200000) {
            mark_to_drop(standard_metadata);
            exit;
        }
        source_learning.apply(hdr, meta, standard_metadata);
        forwarding.apply(hdr, standard_metadata);
    }
}

control SwitchEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    counter(512, CounterType.packets_and_bytes) sent;
    apply {
        // A flooded frame does not go back to where it came from.
        if (standard_metadata.egress_port == standard_metadata.ingress_port) {
            mark_to_drop(standard_metadata);
        } else {
            sent.count((bit<32>) standard_metadata.egress_port);
        }
    }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(SwitchParser(), NoChecksum(), SwitchIngress(), SwitchEgress(), NoChecksum(),
         SwitchDeparser()) main;
