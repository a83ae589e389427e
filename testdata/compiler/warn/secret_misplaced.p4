#include "../prelude.p4"

@secret header tag_t { @secret bit<16> tag; }
struct kept_t { @secret bit<32> key; }

@secret INGRESS {
    @secret register<bit<32>>(4) cells;
    @secret counter(4, CounterType.packets) counted;
    @secret meter(4, MeterType.packets) measured;
    @secret action_profile(4) members;
    @secret bit<32> local = 1;
    kept_t kept = { 1 };
    tag_t tag = { 2 };

    action seal(@secret bit<32> key) { meta.x = meta.x + key; }
    @secret action close(bit<32> key) { meta.x = key; }
    action given(@secret in bit<32> key, bit<32> other) { meta.x = key + other; }
    @secret table all_of_it {
        key = { meta.x : exact; }
        actions = { seal; NoAction; }
        default_action = NoAction();
    }
    table sealed {
        @secret key = { meta.x : exact @secret; }
        @secret actions = { @secret seal; close; @defaultonly NoAction; }
        @secret default_action = NoAction();
    }
    table shared {
        key = { meta.x : exact; }
        actions = { seal; @defaultonly NoAction; }
        implementation = members;
    }
    apply {
        bit<32> color;
        bit<32> cell;
        cells.read(cell, 0);
        counted.count(0);
        measured.execute_meter(0, color);
        given(local + cell + color + kept.key + (bit<32>) tag.tag, 1);
        all_of_it.apply();
        sealed.apply();
        shared.apply();
    }
}

PROGRAM(Tested(), NoEgress());
