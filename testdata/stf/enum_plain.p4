// An enum has no value that the program sees: it is compared, assigned and chosen by (sections 7.2.1, 8.3).
header data_t {
    bit<8> suit;
    bit<8> colour;
}
struct headers_t { data_t data; }
enum Suit { Clubs, Diamonds, Hearts, Spades }
struct metadata_t { Suit suit; }
#include "include/one_header.p4"

INGRESS {
    apply {
        meta.suit = Suit.Clubs;
        if (hdr.data.suit == 1) {
            meta.suit = Suit.Diamonds;
        } else if (hdr.data.suit == 2) {
            meta.suit = Suit.Hearts;
        } else if (hdr.data.suit == 3) {
            meta.suit = Suit.Spades;
        }
        Suit copy = meta.suit;
        hdr.data.colour = copy == Suit.Diamonds || copy == Suit.Hearts ? 8w0xee : 0;
        if (copy != Suit.Spades) { hdr.data.suit = hdr.data.suit + 0x10; }
    }
}

PROGRAM;
