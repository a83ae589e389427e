// Tables and actions in P4Info stand as they are declared, sub-controls where their instances are and those
// applied by type at the end; actions of no control before the first control that uses them.
#include "../prelude.p4"

action shared_by_call(inout metadata_t meta) { meta.x = 1; }
action shared_by_table() { }
action shared_by_egress() { }

control Inner(inout headers_t hdr, inout metadata_t meta) {
    action inner_action(bit<16> y) { meta.y = y; }
    table inner {
        key = { hdr.word.a: exact; }
        actions = { inner_action; shared_by_table; }
        default_action = shared_by_table();
    }
    apply { inner.apply(); }
}

control Direct(inout headers_t hdr, inout metadata_t meta) {
    action direct_action(bit<8> c) { hdr.word.c = c; }
    table direct {
        key = { hdr.word.b: exact; }
        actions = { direct_action; }
    }
    apply { direct.apply(); }
}

INGRESS {
    action second(bit<32> x) { meta.x = x; }
    table applied_last {
        key = { hdr.word.c: exact; }
        actions = { second; NoAction; }
        default_action = NoAction();
    }
    Inner() middle;
    action first() { meta.flag = true; }
    table applied_first {
        key = { hdr.word.d: exact; }
        actions = { first; second; }
        default_action = first();
    }
    apply {
        Direct.apply(hdr, meta);
        shared_by_call(meta);
        applied_first.apply();
        middle.apply(hdr, meta);
        applied_last.apply();
    }
}

EGRESS {
    table egress_table {
        key = { meta.x: exact; }
        actions = { shared_by_egress; shared_by_table; }
        default_action = shared_by_table();
    }
    apply { egress_table.apply(); }
}

PROGRAM(Tested(), TestedEgress());
