// Every operator of int<9> (section 8.8; shifts: 8.10.2).
#define WIDTH 9
#define PADDED 16
#include "include/signed_operators.p4"
