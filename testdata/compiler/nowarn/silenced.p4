// `@noWarn` silences what it stands at, by p4c's name or by code.
#include "../prelude.p4"

@noWarn("unused") const bit<8> SPARE = 1;


INGRESS {
    @noWarn("unused")
    action drop() { mark_to_drop(standard_metadata); }
    @noWarn("W0805") table forward {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { NoAction; }
    }
    apply {
        @noWarn("invalid_header") {
            meta.x = hdr.word.a;
        }
    }
}

PROGRAM(Tested(), NoEgress());
