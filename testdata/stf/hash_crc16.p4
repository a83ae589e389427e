// hash with crc16: polynomial 0x8005, reflected, from 0 (v1model).
#define ALGORITHM HashAlgorithm.crc16
#include "include/hash.p4"
