// Every operator of bit<63> (section 8.7; shifts: 8.10.2).
#define WIDTH 63
#define PADDED 64
#include "include/unsigned_operators.p4"
