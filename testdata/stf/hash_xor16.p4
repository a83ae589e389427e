// hash with xor16: the exclusive or of the data's 16-bit words (v1model).
#define ALGORITHM HashAlgorithm.xor16
#include "include/hash.p4"
