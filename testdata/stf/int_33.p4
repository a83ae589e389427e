// Every operator of int<33> (section 8.8; shifts: 8.10.2).
#define WIDTH 33
#define PADDED 40
#include "include/signed_operators.p4"
