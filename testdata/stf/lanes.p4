// Assignments that do the same to four sets of fields, which an engine may do at once; and such as
// look like it and are not, for a set reads or writes what another has written.
#define FOUR(name) bit<32> name##0; bit<32> name##1; bit<32> name##2; bit<32> name##3
#define LANES(statement) statement(0, 1) statement(1, 2) statement(2, 3) statement(3, 0)

header data_t {
    FOUR(a);
    FOUR(b);
    FOUR(c);
    FOUR(d);
    bit<48> wide;
    bit<16> seen;
}
struct headers_t { data_t data; }
struct metadata_t { FOUR(kept); }
#include "include/one_header.p4"

// The same k in each: one assignment a lane, then several.
#define ADD(i, next) hdr.data.b##i = hdr.data.a##i + hdr.data.b##i;
#define MIX(i, next) \
    hdr.data.a##i = ((hdr.data.a##i << 7) | (hdr.data.a##i >> 25)) ^ hdr.data.b##i; \
    hdr.data.c##i = ~hdr.data.a##i - hdr.data.c##i; \
    meta.kept##i = (hdr.data.b##i + hdr.data.c##i) >> 3; \
    hdr.data.b##i = hdr.data.c##i & 0xff00ff00;
// In all lanes the same, of another width; a field beside its own.
#define SAME(i, next) hdr.data.d##i = (bit<32>) hdr.data.wide ^ hdr.data.d##i;
#define NEXT(i, next) hdr.data.c##i = hdr.data.a##next | hdr.data.d##i;
// Each reads what the one before has written.
#define CHAIN(i, next) hdr.data.a##next = hdr.data.a##i + 1;
// Two lanes of one vector and two of another, in another order.
#define CROSS \
    hdr.data.b0 = hdr.data.b0 + 3; hdr.data.b1 = hdr.data.b1 + 3; \
    hdr.data.c1 = hdr.data.c1 + 3; hdr.data.c0 = hdr.data.c0 + 3;

INGRESS {
    apply {
        LANES(ADD)
        LANES(MIX)
        LANES(SAME)
        LANES(NEXT)
        LANES(ADD)
        CROSS
        LANES(MIX)
        LANES(CHAIN)
        LANES(ADD)
        LANES(MIX)
        // What was left in metadata is read behind them.
        hdr.data.seen = (bit<16>) (meta.kept0 ^ meta.kept1 ^ meta.kept2 ^ meta.kept3);
    }
}

PROGRAM;
