// register: cells of 1, 8, 33, 64 and 128 bits keep their values from packet to packet (v1model).
header data_t {
    bit<8>   index;
    bit<128> value;
}
header seen_t {
    bit<8>   one;
    bit<8>   eight;
    bit<40>  odd;
    bit<64>  sixty_four;
    bit<128> wide;
}
struct headers_t {
    data_t data;
    seen_t seen;
}
struct metadata_t { }
#include "include/one_header.p4"

INGRESS {
    register<bit<1>>(4) ones;
    register<bit<8>>(4) eights;
    register<bit<33>>(4) odds;
    register<bit<64>>(4) sixty_fours;
    register<bit<128>>(4) wides;
    apply {
        bit<32> i = (bit<32>) hdr.data.index;
        bit<1> one;
        bit<8> eight;
        bit<33> odd;
        bit<64> sixty_four;
        bit<128> wide;
        ones.read(one, i);
        eights.read(eight, i);
        odds.read(odd, i);
        sixty_fours.read(sixty_four, i);
        wides.read(wide, i);
        hdr.seen.setValid();
        hdr.seen.one = (bit<8>) one;
        hdr.seen.eight = eight;
        hdr.seen.odd = (bit<40>) odd;
        hdr.seen.sixty_four = sixty_four;
        hdr.seen.wide = wide;
        ones.write(i, hdr.data.value[0:0]);
        eights.write(i, hdr.data.value[7:0]);
        odds.write(i, hdr.data.value[32:0]);
        sixty_fours.write(i, hdr.data.value[63:0]);
        wides.write(i, hdr.data.value + (bit<128>) eight);
    }
}

PROGRAM;
