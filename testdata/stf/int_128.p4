// Every operator of int<128> (section 8.8; shifts: 8.10.2).
#define WIDTH 128
#define PADDED 128
#include "include/signed_operators.p4"
