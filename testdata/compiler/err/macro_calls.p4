#include "../prelude.p4"

#define COPY(to, from) to = from
#define OUTER(what) what = 1
#define INNER(what) OUTER(what)
#define WIDE(value) meta.flag = value
INGRESS {
    apply {
        COPY(meta.x);
        COPY(meta.y, 1;
    }
}

PROGRAM(Tested(), NoEgress());
