// setValid, setInvalid, isValid and headers copied whole.
#include "../prelude.p4"

INGRESS {
    apply {
        hdr.words[0].setValid();
        hdr.words[0] = hdr.word;
        hdr.word.setInvalid();
        hdr.words[1] = { 1, 2, 3, -4 };
        if (hdr.words[1].isValid() && !hdr.word.isValid()) { meta.x = 1; }
        if (hdr.words[0] == hdr.words[1]) { meta.x = 2; }
    }
}

PROGRAM(Tested(), NoEgress());
