// Every operator of int<31> (section 8.8; shifts: 8.10.2).
#define WIDTH 31
#define PADDED 32
#include "include/signed_operators.p4"
