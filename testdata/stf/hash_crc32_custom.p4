// hash with crc32_custom, which is crc32 until someone sets other parameters (v1model).
#define ALGORITHM HashAlgorithm.crc32_custom
#include "include/hash.p4"
