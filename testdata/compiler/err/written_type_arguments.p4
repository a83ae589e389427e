#include "../prelude.p4"

extern Box<T> {
    Box();
    void put<U>(in T value, in U other);
}
parser Reads<H>(packet_in packet, out H headers);
package Reading<H>(Reads<H> reads);
parser Words(packet_in packet, out headers_t hdr) {
    state start { transition accept; }
}
Reading<bit<8>>(Words()) reading;

INGRESS {
    Box<bit<8>>() box;
    apply {
        box.put<int>(1, hdr.word);
        box.put<bit<16>>(1, hdr.word.b);
    }
}

PROGRAM(Tested(), NoEgress());
