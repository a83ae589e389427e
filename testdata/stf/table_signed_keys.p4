// Keys of int<W>: entries of the program and of the control plane, of every kind of match; ranges are in the
// order of the type (sections 8.16.4, 14.2.1). A signed and an unsigned key, and one that is computed.
enum int<8> temperature_t { COLD = -100, MILD = 0, HOT = 100 }
header data_t {
    bit<8>        which;
    int<8>        a;
    int<8>        b;
    int<12>       c;
    bit<4>        pad;
    temperature_t t;
    bit<8>        result;
    bit<64>       rest;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    action set(bit<8> value) { hdr.data.result = value; }
    table exact_and_optional {
        key = { hdr.data.a: exact; hdr.data.b: optional; }
        actions = { set; }
        default_action = set(0);
        const entries = {
            (-112, 1): set(1);
            (-112, _): set(2);
            (5, -1): set(3);
        }
    }
    table exact_alone {
        key = { hdr.data.a: exact; hdr.data.b: exact; }
        actions = { set; }
        default_action = set(0);
        const entries = { (-112, -1): set(1); (112, -128): set(2); }
    }
    table ranges {
        key = { hdr.data.a: range; hdr.data.c: range; }
        actions = { set; }
        default_action = set(0);
        const entries = {
            (-3 .. 3, _): set(1);
            (-128 .. -100, -2048 .. -1): set(2);
            (_, 2047 .. 2047): set(3);
            (100 .. 127, 0): set(4);
        }
    }
    table prefixes {
        key = { hdr.data.c: lpm; }
        actions = { set; }
        default_action = set(0);
        const entries = {
            -1 &&& -16: set(1);
            -2048 &&& -2048: set(2);
            100: set(3);
        }
    }
    table masks {
        key = { hdr.data.a: ternary; hdr.data.b + 1: exact @name("next"); }
        actions = { set; }
        default_action = set(0);
        const entries = {
            (-112 &&& -16, -128): set(1);
            (-1, 0): set(2);
        }
    }
    table enums {
        key = { hdr.data.t: ternary; hdr.data.a & -2: exact @name("even"); }
        actions = { set; }
        default_action = set(0);
        const entries = {
            (temperature_t.COLD, -2): set(1);
            (temperature_t.HOT, 0): set(2);
        }
    }
    table written {
        key = { hdr.data.a: range; hdr.data.b: exact; hdr.data.c: ternary; hdr.data.t: optional; }
        actions = { set; }
        default_action = set(0);
    }
    apply {
        switch (hdr.data.which) {
            0: { exact_and_optional.apply(); }
            1: { exact_alone.apply(); }
            2: { ranges.apply(); }
            3: { prefixes.apply(); }
            4: { masks.apply(); }
            5: { enums.apply(); }
            6: { written.apply(); }
        }
    }
}

PROGRAM;
