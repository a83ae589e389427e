// switch on a number becomes conditionals.
#include "../prelude.p4"

INGRESS {
    apply {
        switch (hdr.word.c) {
            1: { meta.x = 10; }
            2:
            3: { meta.x = 20; }
            default: { meta.x = 30; }
        }
    }
}

PROGRAM(Tested(), NoEgress());
