// An action profile, and a selector with its inputs.
#include "../prelude.p4"

INGRESS {
    action send(bit<9> port) { standard_metadata.egress_spec = port; }
    action_profile(64) shared;
    @max_group_size(8) action_selector(HashAlgorithm.crc16, 128, 16) spread;
    table one { key = { hdr.word.a: exact; } actions = { send; NoAction; } implementation = shared; }
    table many {
        key = { hdr.word.a: exact; hdr.word.b: selector; hdr.word.c: selector; }
        actions = { send; NoAction; }
        implementation = spread;
    }
    apply {
        one.apply();
        many.apply();
    }
}

PROGRAM(Tested(), NoEgress());
