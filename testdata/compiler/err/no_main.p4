#include "../prelude.p4"

INGRESS { apply { } }
