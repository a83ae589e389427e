#include <core.p4>

control C(inout standard_metadata_t standard_metadata) {
    apply { mark_to_drop(standard_metadata); }
}
