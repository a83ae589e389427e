#include "../prelude.p4"

struct pair_t {
    bit<32> first;
    bit<8>  second;
}

control TestedEgress(inout headers_t hdr, inout metadata_t meta,
                     inout standard_metadata_t standard_metadata) {
    apply {
        bit<8> own = meta.kept;
        recirculate({ meta.x, { own, 8w5 } });
    }
}

INGRESS {
    action mirror(bit<8> given) {
        clone3(CloneType.I2E, 5, { meta.x, given });
    }
    table mirrored {
        key = { meta.x: exact; }
        actions = { mirror; NoAction; }
        default_action = NoAction();
    }
    apply {
        pair_t pair = { meta.x, meta.kept };
        mirrored.apply();
        clone3(CloneType.I2E, 5, pair);
        resubmit(meta.y + 1);
        resubmit(hdr.words[meta.x].c);
    }
}
PROGRAM(Tested(), TestedEgress());
