// Every operator of bit<128> (section 8.7; shifts: 8.10.2).
#define WIDTH 128
#define PADDED 128
#include "include/unsigned_operators.p4"
