// Every operator of int<200> (section 8.8; shifts: 8.10.2).
#define WIDTH 200
#define PADDED 200
#include "include/signed_operators.p4"
