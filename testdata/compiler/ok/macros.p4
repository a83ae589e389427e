// #define with arguments, #if, #ifdef, #else, #undef.
#include "../prelude.p4"

#define WIDE
#define ADD(left, right) ((left) + (right))
#define LEVEL 2
#define OTHER 1
#undef OTHER

INGRESS {
    apply {
        #ifdef WIDE
        meta.x = ADD(hdr.word.a, 1);
        #else
        meta.x = 2;
        #endif
        #if LEVEL >= 2 && !defined(OTHER)
        meta.y = 3;
        #elif LEVEL == 1
        meta.y = 4;
        #endif
    }
}

PROGRAM(Tested(), NoEgress());
