// Recirculates headers in every way in which the parser could find other headers than the deparser wrote. The frame
// says which header follows which, and what ingress and egress do with the frame.
#include <core.p4>
#include <v1model.p4>

header command_t {
    bit<8> next;
    bit<8> passes;    // passes that are left
    bit<8> ingress;
    bit<16> egress;
    bit<4> session;
    bit<4> port;
}

header plain_t {
    bit<8>  next;
    bit<4>  x;
    bit<12> y;
    bit<48> address;
    bit<3>  z;
    int<13> number;
    bit<72> wide;
}

header twin_t {
    bit<8>  next;
    bit<32> value;
}

header label_t {
    bit<7>  label;
    bit<1>  is_last;
    bit<16> value;
}

header options_t {
    bit<8> next;
    bit<8> len;
    varbit<64> data;
}

header wide_t {
    bit<8> next;
    bit<3200> body;
}

header sum_t {
    bit<8>  next;
    bit<8>  filler;
    bit<16> sum;
}

header_union either_t {
    twin_t one;
    label_t other;
}

struct headers_t {
    command_t command;
    plain_t plain;
    sum_t sum;
    label_t[3] labels;
    twin_t first;
    twin_t second;
    twin_t doubled;
    either_t either;
    options_t options;
    wide_t wide;
    twin_t hidden;    // never written
}

struct metadata_t {
    @field_list(1, 2) bit<8> kept;
    @field_list(2) bit<16> more;
    @field_list(2) bit<100> most;
    bit<8> lost;
    bit<8> parsed;
}

// The operations of ingress, one bit each.
const bit<8> CLONE = 1;
const bit<8> TRUNCATE = 2;
const bit<8> RESUBMIT = 4;
const bit<8> DROP = 8;
const bit<8> WRITE = 16;
const bit<8> COPIES = 32;

// The operations of egress, one bit each.
const bit<16> EGRESS_CLONE = 1;
const bit<16> RECIRCULATE = 2;
const bit<16> EGRESS_TRUNCATE = 4;
const bit<16> MORE = 8;
const bit<16> TOGGLE_PLAIN = 16;
const bit<16> OTHER_NEXT = 32;
const bit<16> PUSH = 64;
const bit<16> POP = 128;
const bit<16> TWIN = 256;
const bit<16> FIELDS = 512;
const bit<16> HIDE = 1024;
const bit<16> EITHER = 2048;

parser AnyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    value_set<bit<8>>(4) values;

    state start {
        packet.extract(hdr.command);
        meta.parsed = meta.kept + (bit<8>) standard_metadata.instance_type;
        transition select(hdr.command.next) {
            1: plain;
            2: first;
            3: labels;
            4: options;
            5: peek;
            6: both;
            7: skip;
            8: wide;
            9: sum;
            10: checked;
            11: doubled;
            12: one;
            13: other;
            14: second;
            15: hidden;
            16: written;
            values: second;
            default: accept;
        }
    }
    state plain {
        packet.extract(hdr.plain);
        transition select(hdr.plain.next, hdr.plain.x) {
            (2, _): first;
            (3, _): labels;
            (4, 0 &&& 1): options;
            (5, _): peek;
            (9, _): sum;
            (14, _): second;
            default: accept;
        }
    }
    state sum {
        packet.extract(hdr.sum);
        transition select(hdr.sum.next) {
            2: first;
            3: labels;
            8: wide;
            default: accept;
        }
    }
    state first {
        packet.extract(hdr.first);
        transition select(hdr.first.next) {
            1: plain;
            6: second;
            default: accept;
        }
    }
    state second {
        packet.extract(hdr.second);
        transition accept;
    }
    state both {
        packet.extract(hdr.first);
        packet.extract(hdr.second);
        transition accept;
    }
    state doubled {
        packet.extract(hdr.doubled);
        hdr.doubled.value = hdr.doubled.value + 1;
        transition select(hdr.doubled.next) {
            11: doubled;
            default: accept;
        }
    }
    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.is_last) {
            0: labels;
            default: behind_labels;
        }
    }
    state behind_labels {
        transition select(hdr.command.session, standard_metadata.instance_type) {
            (3, 4): first;
            default: accept;
        }
    }
    state options {
        packet.extract(hdr.options, (bit<32>) (hdr.command.port & 7) * 8);
        transition accept;
    }
    state peek {
        transition select(packet.lookahead<bit<8>>()) {
            2: first;
            default: second;
        }
    }
    state skip {
        packet.advance(8);
        transition second;
    }
    state wide {
        packet.extract(hdr.wide);
        transition accept;
    }
    state checked {
        packet.extract(hdr.plain);
        verify(hdr.plain.y > 64, error.HeaderTooShort);
        transition accept;
    }
    state one {
        packet.extract(hdr.either.one);
        transition accept;
    }
    state other {
        packet.extract(hdr.either.other);
        transition accept;
    }
    state hidden {
        packet.extract(hdr.hidden);
        transition accept;
    }
    state written {
        hdr.plain.y = (bit<12>) meta.more;
        packet.extract(hdr.first);
        hdr.first.value = hdr.first.value + 1;
        transition accept;
    }
}

control Verification(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum_with_payload(
            hdr.sum.isValid(),
            { hdr.command.session, hdr.command.port, hdr.sum.next, hdr.sum.filler },
            hdr.sum.sum,
            HashAlgorithm.csum16
        );
    }
}

control AnyIngress(inout headers_t hdr, inout metadata_t meta,
                   inout standard_metadata_t standard_metadata) {
    register<bit<64>>(16) seen;
    bit<64> all = 0;

    apply {
        // Combines what the parser found into one number.
        seen.read(all, (bit<32>) hdr.command.session);
        all = all * 31 + (bit<64>) standard_metadata.packet_length;
        all = all * 31 + (bit<64>) standard_metadata.checksum_error;
        if (standard_metadata.parser_error != error.NoError) { all = all + 8; }
        if (standard_metadata.parser_error == error.PacketTooShort) { all = all + 16; }
        all = all * 31 + (bit<64>) (meta.parsed ++ meta.lost ++ meta.kept ++ meta.more);
        all = all * 31 + (bit<64>) hdr.plain.y + (bit<64>) hdr.first.value;
        all = all * 31 + (bit<64>) hdr.hidden.value + (bit<64>) hdr.labels[1].value;
        all = all * 31 + (bit<64>) hdr.plain.wide;
        if (hdr.either.one.isValid()) { all = all + 1; }
        if (hdr.either.other.isValid()) { all = all + 2; }
        if (hdr.hidden.isValid()) { all = all + 4; }
        seen.write((bit<32>) hdr.command.session, all);

        meta.kept = meta.kept + 1;
        meta.more = meta.more + (bit<16>) hdr.command.passes;
        meta.lost = 7;
        standard_metadata.egress_spec = (bit<9>) (hdr.command.port & 3);
        if ((hdr.command.ingress & CLONE) != 0) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>) (hdr.command.session & 3), 1);
        }
        if ((hdr.command.ingress & WRITE) != 0) {
            hdr.plain.y = hdr.plain.y + 1;
            hdr.first.value = hdr.first.value ^ 0xff;
            hdr.second.setInvalid();
        }
        if ((hdr.command.ingress & COPIES) != 0) {
            standard_metadata.mcast_grp = (bit<16>) (hdr.command.session & 3);
        }
        if ((hdr.command.ingress & TRUNCATE) != 0) {
            truncate(20);
        }
        if ((hdr.command.ingress & RESUBMIT) != 0 && (meta.kept & 3) != 0) {
            resubmit_preserving_field_list(1);
        }
        if ((hdr.command.ingress & DROP) != 0) {
            mark_to_drop(standard_metadata);
        }
    }
}

control AnyEgress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets_and_bytes) copies;

    apply {
        copies.count((bit<32>) hdr.command.session);
        if (hdr.command.passes != 0) {
            hdr.command.passes = hdr.command.passes - 1;
            meta.most = meta.most + 0x123456789abcdef01;
            if ((hdr.command.egress & EGRESS_CLONE) != 0) {
                clone_preserving_field_list(
                    CloneType.E2E, (bit<32>) (hdr.command.session & 3), 2);
            }
            if ((hdr.command.egress & MORE) != 0) {
                recirculate_preserving_field_list(2);
            } else if ((hdr.command.egress & RECIRCULATE) != 0) {
                recirculate_preserving_field_list(1);
            }
            if ((hdr.command.egress & TOGGLE_PLAIN) != 0) {
                if (hdr.plain.isValid()) {
                    hdr.plain.setInvalid();
                } else {
                    hdr.plain.setValid();
                    hdr.plain.next = hdr.command.next;
                    hdr.command.next = 1;
                    hdr.plain.y = (bit<12>) meta.most;
                    hdr.plain.wide = (bit<72>) meta.most;
                }
            }
            if ((hdr.command.egress & OTHER_NEXT) != 0) {
                hdr.command.next = hdr.first.next;
                hdr.plain.x = hdr.plain.x + 1;
            }
            if ((hdr.command.egress & PUSH) != 0) {
                hdr.labels.push_front(1);
                hdr.labels[0].setValid();
                hdr.labels[0].value = (bit<16>) meta.kept;
            }
            if ((hdr.command.egress & POP) != 0) {
                hdr.labels.pop_front(1);
            }
            if ((hdr.command.egress & TWIN) != 0) {
                hdr.second = hdr.first;
                hdr.doubled = hdr.first;
                hdr.hidden.setValid();
                hdr.hidden.value = 9;
            }
            if ((hdr.command.egress & FIELDS) != 0) {
                hdr.plain.number = hdr.plain.number - 5;
                hdr.plain.address = hdr.plain.address + 1;
                hdr.first.value = hdr.first.value + 1;
                hdr.sum.filler = hdr.sum.filler + 1;
            }
            if ((hdr.command.egress & HIDE) != 0) {
                hdr.first.setInvalid();
                hdr.options.setInvalid();
            }
            if ((hdr.command.egress & EITHER) != 0) {
                hdr.either.other.setValid();
                hdr.either.other.value = 3;
            }
        }
        if ((hdr.command.egress & EGRESS_TRUNCATE) != 0) {
            truncate(24);
        }
    }
}

control Update(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum_with_payload(
            hdr.sum.isValid(),
            { hdr.command.session, hdr.command.port, hdr.sum.next, hdr.sum.filler },
            hdr.sum.sum,
            HashAlgorithm.csum16
        );
    }
}

control AnyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.command);
        packet.emit(hdr.plain);
        packet.emit(hdr.sum);
        packet.emit(hdr.labels);
        packet.emit(hdr.first);
        packet.emit(hdr.second);
        packet.emit(hdr.doubled);
        packet.emit(hdr.either);
        packet.emit(hdr.doubled);
        packet.emit(hdr.options);
        packet.emit(hdr.wide);
    }
}

V1Switch(
    AnyParser(),
    Verification(),
    AnyIngress(),
    AnyEgress(),
    Update(),
    AnyDeparser()
) main;
