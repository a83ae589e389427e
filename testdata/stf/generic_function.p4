// A function with type parameters, inferred and given (sections 10, 7.2.11).
header data_t {
    bit<8>  a;
    bit<16> b;
    bit<16> c;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

T first<T>(in T x, in T y) { return x; }
T second<T, U>(in U x, in T y) { return y; }

INGRESS {
    apply {
        hdr.data.b = first(hdr.data.b, 16w5);
        hdr.data.c = first<bit<16>>(7, 9) + second(hdr.data.a, hdr.data.c);
        hdr.data.a = second(true, hdr.data.a) + 1;
    }
}

PROGRAM;
