// Every operator of bit<9> (section 8.7; shifts: 8.10.2).
#define WIDTH 9
#define PADDED 16
#include "include/unsigned_operators.p4"
