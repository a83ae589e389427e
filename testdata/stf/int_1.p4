// Every operator of int<1> (section 8.8; shifts: 8.10.2).
#define WIDTH 1
#define PADDED 8
#include "include/signed_operators.p4"
