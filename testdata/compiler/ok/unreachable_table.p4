// A table that no packet comes to stays for the control plane, with the code behind it.
#include "../prelude.p4"

INGRESS {
    table never {
        key = { hdr.ethernet.dst_addr: exact; }
        actions = { NoAction; }
        default_action = NoAction();
    }
    apply {
        bool on = false;
        hdr.ethernet.dst_addr = 2;
        if (on) { never.apply(); }
        hdr.ethernet.src_addr = 1;
    }
}

PROGRAM(Tested(), NoEgress());
