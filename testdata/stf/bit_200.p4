// Every operator of bit<200> (section 8.7; shifts: 8.10.2).
#define WIDTH 200
#define PADDED 200
#include "include/unsigned_operators.p4"
