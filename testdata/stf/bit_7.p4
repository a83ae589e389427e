// Every operator of bit<7> (section 8.7; shifts: 8.10.2).
#define WIDTH 7
#define PADDED 8
#include "include/unsigned_operators.p4"
