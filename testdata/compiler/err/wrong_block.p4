#include "../prelude.p4"

INGRESS { apply { } }
V1Switch(TestParser(), NoChecksum(), NoChecksum(), Tested(), NoChecksum(), TestDeparser()) main;
