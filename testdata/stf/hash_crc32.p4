// hash with crc32, as zlib has it, over fields and constants (v1model).
#define ALGORITHM HashAlgorithm.crc32
#include "include/hash.p4"
