// Macros with arguments, conditions, #elif, #undef, __LINE__, continued lines (section 6.2).
#define TWICE(x) ((x) + (x))
#define JOIN(a, b) a ++ b
#define FEATURE 2
#if FEATURE == 1
#error "the wrong branch"
#elif defined(FEATURE) && FEATURE > 1
#define STEP 3
#else
#error "no branch"
#endif
#ifdef NOT_THERE
#error "not defined"
#endif
#undef FEATURE
#ifndef FEATURE
#define LIMIT \
    9
#endif
header data_t {
    bit<8>  a;
    bit<8>  b;
    bit<16> c;
    bit<8>  d;
    bit<8>  line;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    apply {
        hdr.data.a = TWICE(hdr.data.a + 1);
        hdr.data.b = STEP;
        hdr.data.c = JOIN(hdr.data.a, hdr.data.b);
        hdr.data.d = LIMIT;
        hdr.data.line = __LINE__;
    }
}

PROGRAM;
