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

control Exchange<T>(inout T value, out T old)(T next) {
    apply {
        old = value;
        value = next;
    }
}

PARSER {
    Take<data_t>() take;
    state start {
        take.apply(packet, hdr.data);
        transition accept;
    }
}

INGRESS {
    Exchange<bit<8>>(3) byte;
    Exchange(16w0x101) word;
    apply {
        bit<8> byte_before;
        bit<16> word_before;
        byte.apply(hdr.data.a, byte_before);
        word.apply(hdr.data.b, word_before);
        hdr.data.b = hdr.data.b + word_before + (bit<16>) byte_before;
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
