#include "../prelude.p4"

type bit<9> Port_t;
bit<16> f(in Port_t port) { return (bit<16>) port; }

PROGRAM(NoEgress(), NoEgress());
