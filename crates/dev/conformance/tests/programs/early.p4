// What a packet can do whose parser ran before that of the packets in front of it: everything that
// parser, verification and metadata leave for the controls is shown in the frame that leaves, and
// ingress asks for whatever there is to ask for. The ternary and longest-prefix keys make a flow cache
// worth it.
#include <core.p4>
#include <v1model.p4>

header ask_t {
    bit<8>  what;       // the lowest four bits: one of the things below
    bit<8>  next;
    bit<16> key;
    bit<8>  other;
    bit<8>  found;
}

header seen_t {
    bit<16> sum;
    bit<16> payload_sum;
    bit<16> ingress_length;
    bit<16> egress_length;
    bit<48> arrived;
    bit<8>  parser_error;
    bit<8>  wrong_sum;
    bit<8>  type;
    bit<8>  past;
}

header label_t {
    bit<7> value;
    bit<1> is_last;
    bit<8> more;
}

header options_t {
    bit<8>      len;
    varbit<120> data;
}

struct headers_t {
    ask_t ask;
    seen_t seen;
    label_t[3] labels;
    options_t options;
}

struct metadata_t {
    @field_list(1) bit<8> rounds;
    @field_list(1, 2) bit<8> mark;
    bit<8> via;
    bit<2> colour;
}

struct digest_t {
    bit<8>  what;
    bit<16> key;
    bit<8>  mark;
}

const bit<4> CLONE = 1;
const bit<4> RESUBMIT = 2;
const bit<4> DIGEST = 3;
const bit<4> MULTICAST = 4;
const bit<4> CUT = 5;
const bit<4> RECIRCULATE = 6;
const bit<4> CLONE_AGAIN = 7;
const bit<4> CUT_LATE = 8;
const bit<4> ASSERT = 9;
const bit<4> URGENT = 10;

parser EarlyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    value_set<bit<8>>(4) labelled;

    state start {
        packet.extract(hdr.ask);
        packet.extract(hdr.seen);
        meta.via = hdr.ask.other ^ (bit<8>)standard_metadata.ingress_port;
        transition select(hdr.ask.next) {
            1: labels;
            2: options;
            3: checked;
            labelled: labels;
            default: accept;
        }
    }
    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.is_last) {
            0: labels;
            default: accept;
        }
    }
    state options {
        packet.extract(hdr.options, (bit<32>)(packet.lookahead<bit<8>>() & 15) * 8);
        transition accept;
    }
    state checked {
        verify(hdr.ask.other != 0, error.NoMatch);
        transition labels;
    }
}

control EarlyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(true, { hdr.ask.key, hdr.ask.other, hdr.ask.found }, hdr.seen.sum,
                        HashAlgorithm.csum16);
        verify_checksum_with_payload(hdr.options.isValid(), { hdr.ask.key, hdr.ask.what, 8w0 },
                                     hdr.seen.payload_sum, HashAlgorithm.csum16);
    }
}

control EarlyIngress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    register<bit<8>>(4) before;
    direct_counter(CounterType.packets_and_bytes) taken;
    direct_meter<bit<2>>(MeterType.bytes) rate;
    counter(4, CounterType.packets_and_bytes) all;

    action go(bit<9> port) { standard_metadata.egress_spec = port; }
    action deny() { mark_to_drop(standard_metadata); }
    action note(bit<8> value) { hdr.ask.found = value; meta.mark = value; }
    action unlabel() { hdr.labels.pop_front(1); }
    action label(bit<7> value) {
        hdr.labels.push_front(1);
        hdr.labels[0].setValid();
        hdr.labels[0].value = value;
        hdr.labels[0].is_last = (bit<1>)(bit<8>)hdr.ask.other;
        hdr.labels[0].more = meta.via;
    }
    action strip() { hdr.options.setInvalid(); }
    action metered(bit<8> value) { rate.read(meta.colour); meta.mark = value; }

    table routes {
        key = { hdr.ask.key: lpm; }
        actions = { note; label; unlabel; strip; NoAction; }
        counters = taken;
    }
    table by_via {
        key = { meta.via: exact; hdr.labels[0].isValid(): exact; }
        actions = { metered; NoAction; }
        meters = rate;
    }
    table rules {
        key = {
            hdr.ask.found: ternary;
            hdr.ask.other: ternary;
            hdr.labels[0].value: range;
        }
        actions = { go; deny; NoAction; }
        default_action = go(2);
    }

    apply {
        hdr.seen.ingress_length = standard_metadata.packet_length[15:0];
        hdr.seen.arrived = standard_metadata.ingress_global_timestamp;
        hdr.seen.parser_error = standard_metadata.parser_error == error.NoError ? 8w0
            : standard_metadata.parser_error == error.PacketTooShort ? 8w1
            : standard_metadata.parser_error == error.NoMatch ? 8w2 : 8w3;
        hdr.seen.wrong_sum = (bit<8>)standard_metadata.checksum_error;
        hdr.seen.type = (bit<8>)standard_metadata.instance_type;
        before.read(hdr.seen.past, 1);
        before.write(1, hdr.ask.other);
        routes.apply();
        by_via.apply();
        rules.apply();
        all.count((bit<32>)hdr.ask.other & 3);
        bit<4> what = hdr.ask.what[3:0];
        if (what == CLONE) {
            clone_preserving_field_list(CloneType.I2E, 1, 2);
        } else if (what == RESUBMIT && meta.rounds < 2) {
            meta.rounds = meta.rounds + 1;
            resubmit_preserving_field_list(1);
        } else if (what == DIGEST) {
            digest<digest_t>(0, { hdr.ask.what, hdr.ask.key, meta.mark });
        } else if (what == MULTICAST) {
            standard_metadata.mcast_grp = 1;
        } else if (what == CUT) {
            truncate((bit<32>)hdr.ask.other + 20);
        } else if (what == ASSERT) {
            assert(hdr.ask.other != 1);
        } else if (what == URGENT) {
            standard_metadata.priority = hdr.ask.other[2:0];
        }
    }
}

control EarlyEgress(inout headers_t hdr, inout metadata_t meta,
                    inout standard_metadata_t standard_metadata) {
    apply {
        hdr.seen.egress_length = standard_metadata.packet_length[15:0];
        hdr.seen.past = hdr.seen.past + meta.mark + (bit<8>)meta.colour;
        bit<4> what = hdr.ask.what[3:0];
        if (what == RECIRCULATE && meta.rounds < 2) {
            meta.rounds = meta.rounds + 1;
            recirculate_preserving_field_list(1);
        } else if (what == CLONE_AGAIN) {
            hdr.ask.what = 0;
            clone_preserving_field_list(CloneType.E2E, 1, 2);
        } else if (what == CUT_LATE) {
            truncate(25);
        }
    }
}

control EarlyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(true, { hdr.ask.key, hdr.ask.other, hdr.ask.found }, hdr.seen.sum,
                        HashAlgorithm.csum16);
        update_checksum_with_payload(hdr.options.isValid(), { hdr.ask.key, hdr.ask.what, 8w0 },
                                     hdr.seen.payload_sum, HashAlgorithm.csum16);
    }
}

control EarlyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ask);
        packet.emit(hdr.seen);
        packet.emit(hdr.labels);
        packet.emit(hdr.options);
    }
}

V1Switch(EarlyParser(), EarlyVerify(), EarlyIngress(), EarlyEgress(), EarlyUpdate(),
         EarlyDeparser()) main;
