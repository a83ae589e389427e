// Every operator of int<8> (section 8.8; shifts: 8.10.2).
#define WIDTH 8
#define PADDED 8
#include "include/signed_operators.p4"
