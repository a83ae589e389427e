// @brief, @description, @id and structured annotations reach P4Info.
#include "../prelude.p4"

INGRESS {
    @id(0x77) @brief("sets a field")
    action set(@brief("the value") bit<32> value) { meta.x = value; }
    @id(0x02000042) @description("looks a word up") @owner[name = "core", level = 3]
    table t { key = { hdr.word.a: exact @name("word") @brief("the word") @id(4); } actions = { @tableonly set; @defaultonly NoAction; } }
    apply {
        t.apply();
    }
}

PROGRAM(Tested(), NoEgress());
