// switch on an enum without values (section 12.7.2).
header data_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { data_t data; }
enum Verdict { Pass, Mark, Refuse }
struct metadata_t { Verdict verdict; }
#include "include/one_header.p4"

INGRESS {
    apply {
        meta.verdict = Verdict.Pass;
        if (hdr.data.a > 0x80) { meta.verdict = Verdict.Refuse; }
        else if (hdr.data.a > 0x40) { meta.verdict = Verdict.Mark; }
        switch (meta.verdict) {
            Verdict.Refuse: { mark_to_drop(standard_metadata); }
            Verdict.Mark: { hdr.data.b = 1; }
            default: { hdr.data.b = 2; }
        }
    }
}

PROGRAM;
