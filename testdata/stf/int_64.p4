// Every operator of int<64> (section 8.8; shifts: 8.10.2).
#define WIDTH 64
#define PADDED 64
#include "include/signed_operators.p4"
