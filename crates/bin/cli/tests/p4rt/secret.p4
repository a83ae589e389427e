// Has a secret field for every kind of match, each beside a field that anybody may read, and a secret register.
#include <core.p4>
#include <v1model.p4>

struct headers_t {}
struct metadata_t { bit<16> t; }

parser Begin(packet_in packet, out headers_t headers, inout metadata_t meta,
             inout standard_metadata_t standard) {
    state start { transition accept; }
}

control Verify(inout headers_t headers, inout metadata_t meta) { apply {} }

control Tables(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    @secret register<bit<16>>(2) kept;
    action send(bit<9> port) { standard.egress_spec = port; }

#define TABLE(NAME, KIND) table NAME { \
        key = { meta.t: KIND @secret @name("t"); standard.ingress_port: exact @name("port"); } \
        actions = { send; } \
        size = 16; \
    }
    TABLE(exacts, exact)
    TABLE(prefixes, lpm)
    TABLE(masks, ternary)
    TABLE(ranges, range)
    TABLE(options, optional)
#undef TABLE

    apply {
        kept.read(meta.t, 0);
        exacts.apply();
        prefixes.apply();
        masks.apply();
        ranges.apply();
        options.apply();
    }
}

control Leave(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) { apply {} }
control Update(inout headers_t headers, inout metadata_t meta) { apply {} }
control End(packet_out packet, in headers_t headers) { apply {} }

V1Switch(Begin(), Verify(), Tables(), Leave(), Update(), End()) main;
