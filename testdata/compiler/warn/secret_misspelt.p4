#include "../prelude.p4"

INGRESS {
    @secrets register<bit<32>>(4) cells;
    action seal(@Secret bit<32> key) { meta.x = meta.x + key; }
    @SECRET action close(@sercet bit<32> key) { meta.x = key; }
    @secure @select action opens() { meta.x = 1; }
    @Secrets table sealed {
        key = { meta.x : exact @secert; }
        actions = { seal; close; opens; @defaultonly NoAction; }
        default_action = NoAction();
    }
    apply {
        bit<32> cell;
        cells.read(cell, 0);
        meta.x = meta.x + cell;
        sealed.apply();
    }
}

PROGRAM(Tested(), NoEgress());
