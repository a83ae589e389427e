#include "../prelude.p4"

INGRESS {
    table exact_range {
        key = { hdr.word.a: exact; }
        actions = { NoAction; }
        const entries = { 17 .. 240: NoAction(); }
    }
    table exact_all {
        key = { hdr.word.a: exact; }
        actions = { NoAction; }
        const entries = { _: NoAction(); }
    }
    table lpm_range {
        key = { hdr.word.a: lpm; }
        actions = { NoAction; }
        const entries = { 17 .. 240: NoAction(); }
    }
    table lpm_mask {
        key = { hdr.word.a: lpm; }
        actions = { NoAction; }
        const entries = { 0x10 &&& 0x0f: NoAction(); }
    }
    table ternary_range {
        key = { hdr.word.a: ternary; }
        actions = { NoAction; }
        const entries = { 17 .. 240: NoAction(); }
    }
    table range_mask {
        key = { hdr.word.a: range; }
        actions = { NoAction; }
        const entries = { 0x10 &&& 0xF0: NoAction(); }
    }
    table range_empty {
        key = { hdr.word.a: range; }
        actions = { NoAction; }
        const entries = { 8 .. 7: NoAction(); }
    }
    apply {
        exact_range.apply();
        exact_all.apply();
        lpm_range.apply();
        lpm_mask.apply();
        ternary_range.apply();
        range_mask.apply();
        range_empty.apply();
    }
}

PROGRAM(Tested(), NoEgress());
