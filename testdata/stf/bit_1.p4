// Every operator of bit<1> (section 8.7; shifts: 8.10.2).
#define WIDTH 1
#define PADDED 8
#include "include/unsigned_operators.p4"
