// Every operator of int<7> (section 8.8; shifts: 8.10.2).
#define WIDTH 7
#define PADDED 8
#include "include/signed_operators.p4"
