// Lines that a generator took from elsewhere: the JSON's places are those of the original.
#include "../prelude.p4"

#define HERE 30
#line HERE "rules/acl.template"
INGRESS {
    action mark() { hdr.word.a = __LINE__; }
# 112 "rules/tables.p4" 1
    table acl {
        key = { hdr.word.b: exact; }
        actions = { mark; NoAction; }
    }
# 32 "rules/acl.template" 2
    apply { acl.apply(); }
}
#line 16 "testdata/compiler/ok/line_directives.p4"

PROGRAM(Tested(), NoEgress());
