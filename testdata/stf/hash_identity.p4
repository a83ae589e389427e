// hash with identity: the first eight bytes of the data as a number (v1model).
#define ALGORITHM HashAlgorithm.identity
#include "include/hash.p4"
