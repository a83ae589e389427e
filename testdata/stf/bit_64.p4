// Every operator of bit<64> (section 8.7; shifts: 8.10.2).
#define WIDTH 64
#define PADDED 64
#include "include/unsigned_operators.p4"
