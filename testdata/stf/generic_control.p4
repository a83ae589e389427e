// A control and a parser with type parameters, as p4c takes them: explicit, and inferred from the
// constructor's argument.
header data_t {
    bit<8>  a;
    bit<16> b;
}
struct headers_t { data_t data; }
struct metadata_t { }
#include "include/blocks.p4"

parser Take<T>(packet_in packet, out T value) {
    state start {
        packet.extract(value);
        transition accept;
    }
}

control Add<T>(inout T value)(T step) {
    apply { value = value + step; }
}

PARSER {
    Take<data_t>() take;
    state start {
        take.apply(packet, hdr.data);
        transition accept;
    }
}

INGRESS {
    Add<bit<8>>(3) byte;
    Add(16w0x101) word;
    apply {
        byte.apply(hdr.data.a);
        word.apply(hdr.data.b);
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
