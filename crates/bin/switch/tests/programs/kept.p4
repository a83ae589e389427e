// Has what a state file keeps: a table, a default action, a register, a group and a session. Also has a register that
// packets write; the state file does not keep what they write.
#include <core.p4>
#include <v1model.p4>

struct headers_t {}
struct metadata_t {}

parser Begin(packet_in packet, out headers_t headers, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { transition accept; }
}

control Verify(inout headers_t headers, inout metadata_t meta) { apply {} }

control Forward(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<32>>(64) cells;
    register<bit<32>>(64) notes;
    action send(bit<9> port) { standard.egress_spec = port; }
    action refuse() { mark_to_drop(standard); }
    table forward {
        key = { standard.ingress_port: exact; }
        actions = { send; refuse; }
        default_action = refuse();
        size = 512;
    }
    apply {
        bit<32> cell;
        cells.read(cell, 63);
        notes.write(63, cell + 7);
        forward.apply();
    }
}

control Leave(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Update(inout headers_t headers, inout metadata_t meta) { apply {} }
control End(packet_out packet, in headers_t headers) { apply {} }

V1Switch(Begin(), Verify(), Forward(), Leave(), Update(), End()) main;
