// The values of structured annotations are computed: constants, their sums, strings in parts.
#include "../prelude.p4"

const int PORTS = 16;
const int PER_PORT = 4;
const string OWNER = "edge";

@limits[PORTS, PORTS * PER_PORT, -1]
INGRESS {
    @policy[size = PORTS * PER_PORT, strict = PER_PORT > 2, owner = OWNER ++ "-team"]
    table acl {
        key = { hdr.word.a: exact @bounds[0, PORTS - 1]; }
        actions = { NoAction; }
    }
    apply { acl.apply(); }
}

PROGRAM(Tested(), NoEgress());
