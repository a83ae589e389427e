// Every operator of bit<31> (section 8.7; shifts: 8.10.2).
#define WIDTH 31
#define PADDED 32
#include "include/unsigned_operators.p4"
