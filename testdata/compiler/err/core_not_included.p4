control C(inout bit<8> a, packet_in packet) {
    table t {
        key = { a : exact; }
        actions = { NoAction; }
    }
    apply { t.apply(); }
}
