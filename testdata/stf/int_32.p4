// Every operator of int<32> (section 8.8; shifts: 8.10.2).
#define WIDTH 32
#define PADDED 32
#include "include/signed_operators.p4"
