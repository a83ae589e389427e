// Every operator of bit<33> (section 8.7; shifts: 8.10.2).
#define WIDTH 33
#define PADDED 40
#include "include/unsigned_operators.p4"
