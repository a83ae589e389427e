// hash with crc16_custom, which is crc16 until someone sets other parameters (v1model).
#define ALGORITHM HashAlgorithm.crc16_custom
#include "include/hash.p4"
