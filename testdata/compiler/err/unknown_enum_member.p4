#include "../prelude.p4"

INGRESS {
    apply {
        if (standard_metadata.parser_error == error.NoEror) { }
        clone(CloneType.I2I, 1);
    }
}

PROGRAM(Tested(), NoEgress());
