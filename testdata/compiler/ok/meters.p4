// A meter and a direct meter.
#include "../prelude.p4"

INGRESS {
    meter(8, MeterType.bytes) rates;
    direct_meter<bit<16>>(MeterType.packets) own;
    action read_it() { own.read(meta.y); }
    table t {
        key = { hdr.word.a: exact; }
        actions = { read_it; NoAction; }
        meters = own;
    }
    apply {
        rates.execute_meter((bit<32>) hdr.word.c, hdr.word.b);
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
