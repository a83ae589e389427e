#include "../prelude.p4"

extern Listing { Listing(list<bit<8>> values = ...); }

INGRESS {
    apply {
        if ((...) && hdr.word.isValid()) { }
        switch (...) { default: { } }
        hdr.words = { { 1, 2, 3, 4 } };
    }
}

PROGRAM(Tested(), NoEgress());
