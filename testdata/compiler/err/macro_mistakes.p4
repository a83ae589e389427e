#include "../prelude.p4"

#define COPY(to, from) to = from
#define OUTER(what) what = 1
#define INNER(what) OUTER(what)
#define WIDE(value) meta.flag = value
INGRESS {
    apply {
        INNER(meta.absent);
        WIDE(1);
        COPY(meta.y, INNER(meta.flag));
    }
}

PROGRAM(Tested(), NoEgress());
