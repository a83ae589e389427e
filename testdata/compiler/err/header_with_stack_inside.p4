#include "../prelude.p4"

struct inner_t { word_t[2] words; }
header holder_t<T> { T part; bit<8> last; }
typedef holder_t<inner_t> wrong_t;
typedef holder_t<bit<8>> right_t;

INGRESS { apply { } }

PROGRAM(Tested(), NoEgress());
