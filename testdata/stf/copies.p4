// Every way to a second packet, and what it knows when it comes: the instance type, the ingress port,
// the length, the replica id, the metadata that a field list kept. Each pass through ingress and egress
// puts a record in front of the payload.
#include <core.p4>
#include <v1model.p4>

header command_t {
    bit<8> ingress;
    bit<8> egress;
}

header record_t {
    bit<4>  stage;
    bit<4>  instance;
    bit<8>  ingress_port;
    bit<16> length;
    bit<8>  rid;
    bit<8>  kept;
    bit<8>  lost;
}

struct headers_t {
    command_t   command;
    record_t[6] records;
}

struct metadata_t {
    @field_list(1) bit<8> kept;
    bit<8> lost;
}

const bit<8> CLONE = 1;
const bit<8> CLONE_KEEPING = 2;
const bit<8> AGAIN = 4;
const bit<8> DROP = 8;
const bit<8> GROUP = 16;
const bit<32> SESSION = 5;

parser CommandParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    state start {
        packet.extract(hdr.command);
        transition accept;
    }
}

control NoChecksum(inout headers_t hdr, inout metadata_t meta) { apply { } }

control Record(inout headers_t hdr, in metadata_t meta, in standard_metadata_t standard_metadata)
              (bit<4> stage) {
    apply {
        hdr.records.push_front(1);
        hdr.records[0].setValid();
        hdr.records[0].stage = stage;
        hdr.records[0].instance = (bit<4>) standard_metadata.instance_type;
        hdr.records[0].ingress_port = (bit<8>) standard_metadata.ingress_port;
        hdr.records[0].length = (bit<16>) standard_metadata.packet_length;
        hdr.records[0].rid = (bit<8>) standard_metadata.egress_rid;
        hdr.records[0].kept = meta.kept;
        hdr.records[0].lost = meta.lost;
    }
}

control CommandIngress(inout headers_t hdr, inout metadata_t meta,
                       inout standard_metadata_t standard_metadata) {
    Record(1) record;
    apply {
        record.apply(hdr, meta, standard_metadata);
        standard_metadata.egress_spec = 1;
        meta.kept = meta.kept + 0x10;
        meta.lost = meta.lost + 0x20;
        if (hdr.command.ingress & CLONE != 0) {
            clone(CloneType.I2E, SESSION);
        }
        if (hdr.command.ingress & CLONE_KEEPING != 0) {
            clone_preserving_field_list(CloneType.I2E, SESSION, 1);
        }
        if (hdr.command.ingress & AGAIN != 0 && standard_metadata.instance_type == 0) {
            resubmit_preserving_field_list(1);
        }
        if (hdr.command.ingress & GROUP != 0) {
            standard_metadata.mcast_grp = 1;
        }
        if (hdr.command.ingress & DROP != 0) {
            mark_to_drop(standard_metadata);
        }
    }
}

control CommandEgress(inout headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    Record(2) record;
    apply {
        record.apply(hdr, meta, standard_metadata);
        bit<8> command = hdr.command.egress;
        if (standard_metadata.instance_type == 2) {
            command = 0;
        }
        if (command & CLONE != 0) {
            clone(CloneType.E2E, SESSION);
        }
        if (command & CLONE_KEEPING != 0) {
            clone_preserving_field_list(CloneType.E2E, SESSION, 1);
        }
        if (command & AGAIN != 0) {
            hdr.command.egress = 0;
            recirculate_preserving_field_list(1);
        }
        if (command & DROP != 0) {
            mark_to_drop(standard_metadata);
        }
    }
}

control CommandDeparser(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr); }
}

V1Switch(CommandParser(), NoChecksum(), CommandIngress(), CommandEgress(), NoChecksum(),
         CommandDeparser()) main;
