// Every operator of bit<32> (section 8.7; shifts: 8.10.2).
#define WIDTH 32
#define PADDED 32
#include "include/unsigned_operators.p4"
