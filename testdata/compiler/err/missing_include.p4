#include "not_there.p4"
#include <v1model.p4>

struct all_t {
    from_the_missing_file_t a;
}
