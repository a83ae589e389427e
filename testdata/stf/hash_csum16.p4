// hash with csum16, the Internet checksum (v1model).
#define ALGORITHM HashAlgorithm.csum16
#include "include/hash.p4"
