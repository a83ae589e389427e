#include "../prelude.p4"

error { Late, Late }
match_kind { exact }

PROGRAM(NoEgress(), NoEgress());
