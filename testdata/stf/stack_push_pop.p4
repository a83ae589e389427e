// push_front and pop_front by one, by two, beyond the size; new elements are invalid (section 8.19).
header data_t {
    bit<8> command;
    bit<8> n_pushed;
}
header item_t { bit<8> value; }
struct headers_t {
    data_t    data;
    item_t[3] items;
}
struct metadata_t { }
#include "include/blocks.p4"

PARSER {
    state start {
        packet.extract(hdr.data);
        packet.extract(hdr.items.next);
        packet.extract(hdr.items.next);
        transition accept;
    }
}

INGRESS {
    apply {
        if (hdr.data.command == 1) {
            hdr.items.push_front(1);
        } else if (hdr.data.command == 2) {
            hdr.items.push_front(2);
            hdr.items[0].setValid();
            hdr.items[0].value = 0xa0;
        } else if (hdr.data.command == 3) {
            hdr.items.pop_front(1);
        } else if (hdr.data.command == 4) {
            hdr.items.pop_front(2);
        } else if (hdr.data.command == 5) {
            hdr.items.push_front(4);
        } else if (hdr.data.command == 6) {
            hdr.items.push_front(1);
            hdr.items[0].setValid();
            hdr.items[0].value = 0xb0;
            hdr.items.pop_front(2);
            hdr.items[2].setValid();
            hdr.items[2].value = 0xc0;
        }
    }
}

SWITCH(TestParser, TestIngress, NoEgress);
