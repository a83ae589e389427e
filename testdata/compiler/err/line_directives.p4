#include "../prelude.p4"

#line 40 "rules/acl.template"
INGRESS {
    apply {
        hdr.word.a = first;
        // The same file goes on with another number.
#line 90
        hdr.word.b = second
            + 1w1;
    }
}

# 7 "rules/acl.p4" 2
const bit<8> WIDE = third;
#line
#line 7 8

PROGRAM(Tested(), NoEgress());
