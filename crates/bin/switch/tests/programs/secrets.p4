// Has secrets wherever a controller writes values: an action's parameter, a field of a key, a register, a member.
#include <core.p4>
#include <v1model.p4>

struct headers_t {}
struct metadata_t {
    bit<32> token;
    bit<32> sealed;
    bit<32> kept;
}

parser Begin(packet_in packet, out headers_t headers, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { transition accept; }
}

control Verify(inout headers_t headers, inout metadata_t meta) { apply {} }

control Seal(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    @secret @id(0x16000001) register<bit<32>>(2) kept;
    @id(0x16000002) register<bit<32>>(2) sealed;
    @id(0x11000001) action_profile(4) keys;

    @id(0x01000001) action seal(bit<9> port, @secret bit<32> key) {
        standard.egress_spec = port;
        meta.sealed = key ^ 32w0x01010101;
        log_msg("port {} has key {}", {port, key});
    }
    @secret @id(0x01000002) action close(bit<32> key) {
        meta.sealed = key;
        mark_to_drop(standard);
    }
    @id(0x02000001) table seals {
        key = {
            standard.ingress_port: exact @name("port");
            meta.token: exact @secret @name("token");
        }
        actions = { seal; close; }
        default_action = close(0);
        size = 16;
    }
    @id(0x02000002) table shared {
        key = { standard.ingress_port: exact @name("port"); }
        actions = { seal; @defaultonly NoAction; }
        implementation = keys;
        size = 16;
    }

    apply {
        meta.token = 32w0x70ce0000;
        kept.read(meta.kept, 1);
        seals.apply();
        shared.apply();
        if (meta.kept != 0) {
            sealed.write(0, meta.sealed);
        }
    }
}

control Leave(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Update(inout headers_t headers, inout metadata_t meta) { apply {} }
control End(packet_out packet, in headers_t headers) { apply {} }

V1Switch(Begin(), Verify(), Seal(), Leave(), Update(), End()) main;
