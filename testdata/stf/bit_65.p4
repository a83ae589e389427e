// Every operator of bit<65> (section 8.7; shifts: 8.10.2).
#define WIDTH 65
#define PADDED 72
#include "include/unsigned_operators.p4"
