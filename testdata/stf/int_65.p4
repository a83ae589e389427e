// Every operator of int<65> (section 8.8; shifts: 8.10.2).
#define WIDTH 65
#define PADDED 72
#include "include/signed_operators.p4"
