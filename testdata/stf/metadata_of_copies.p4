// What v1model's metadata say of every kind of packet besides port, length and replica (copies.p4 has
// those): each pass through ingress and egress puts a record in front of the payload. The parser reads
// a tag on port 8 only, and sees the port of a clone's original too.
#include <core.p4>
#include <v1model.p4>

header command_t {
    bit<8>  ingress;
    bit<8>  egress;
    bit<16> checksum;
}

header tag_t { bit<8> value; }

header record_t {
    bit<4>  stage;
    bit<4>  instance;
    bit<16> egress_spec;
    bit<8>  egress_port;
    bit<8>  mcast_grp;
    bit<8>  rid;
    bit<4>  deq_time;
    bit<1>  unused;
    bit<1>  enq_time;
    bit<1>  egress_time;
    bit<1>  ingress_time;
    bit<3>  priority;
    bit<1>  checksum_error;
    bit<1>  too_short;
    bit<3>  also_unused;
    bit<4>  enq_depth;
    bit<4>  deq_depth;
}

header tail_t { bit<32> value; }

struct headers_t {
    command_t   command;
    tag_t       tag;
    record_t[6] records;
    tail_t      tail;
}

struct metadata_t { }

const bit<8> CLONE = 1;
const bit<8> AGAIN = 4;
const bit<8> GROUP = 16;
const bit<32> SESSION = 5;

parser CommandParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.command);
        transition select(standard_metadata.ingress_port) {
            8: tagged;
            default: tail;
        }
    }
    state tagged {
        packet.extract(hdr.tag);
        transition tail;
    }
    // Of a new frame there is too little left.
    state tail {
        packet.extract(hdr.tail);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(true, { hdr.command.ingress, hdr.command.egress }, hdr.command.checksum,
                        HashAlgorithm.csum16);
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Record(inout headers_t hdr, in standard_metadata_t standard_metadata)(bit<4> stage) {
    apply {
        hdr.records.push_front(1);
        hdr.records[0].setValid();
        hdr.records[0].stage = stage;
        hdr.records[0].instance = (bit<4>) standard_metadata.instance_type;
        hdr.records[0].egress_spec = (bit<16>) standard_metadata.egress_spec;
        hdr.records[0].egress_port = (bit<8>) standard_metadata.egress_port;
        hdr.records[0].mcast_grp = (bit<8>) standard_metadata.mcast_grp;
        hdr.records[0].rid = (bit<8>) standard_metadata.egress_rid;
        hdr.records[0].deq_time = (bit<4>) standard_metadata.deq_timedelta;
        hdr.records[0].unused = 0;
        hdr.records[0].enq_time = standard_metadata.enq_timestamp != 0 ? 1w1 : 0;
        hdr.records[0].egress_time = standard_metadata.egress_global_timestamp != 0 ? 1w1 : 0;
        hdr.records[0].ingress_time = standard_metadata.ingress_global_timestamp != 0 ? 1w1 : 0;
        hdr.records[0].priority = standard_metadata.priority;
        hdr.records[0].checksum_error = standard_metadata.checksum_error;
        hdr.records[0].too_short = standard_metadata.parser_error == error.PacketTooShort ? 1w1 : 0;
        hdr.records[0].also_unused = 0;
        hdr.records[0].enq_depth = (bit<4>) standard_metadata.enq_qdepth;
        hdr.records[0].deq_depth = (bit<4>) standard_metadata.deq_qdepth;
    }
}

control CommandIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    Record(1) record;
    apply {
        record.apply(hdr, standard_metadata);
        standard_metadata.egress_spec = 1;
        standard_metadata.priority = 3;
        if (hdr.command.ingress & CLONE != 0) {
            clone(CloneType.I2E, SESSION);
        }
        if (hdr.command.ingress & AGAIN != 0 && standard_metadata.instance_type == 0) {
            resubmit_preserving_field_list(1);
        }
        if (hdr.command.ingress & GROUP != 0) {
            standard_metadata.mcast_grp = 1;
        }
    }
}

control CommandEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    Record(2) record;
    apply {
        record.apply(hdr, standard_metadata);
        if (hdr.tag.isValid()) {
            hdr.tag.value = 0xaa;
        }
        if (hdr.command.egress & CLONE != 0 && standard_metadata.instance_type != 2) {
            clone(CloneType.E2E, SESSION);
        }
        if (hdr.command.egress & AGAIN != 0) {
            hdr.command.egress = 0;
            recirculate_preserving_field_list(1);
        }
    }
}

control CommandDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(CommandParser(), Verify(), CommandIngress(), CommandEgress(), NoChecksum(),
         CommandDeparser()) main;
