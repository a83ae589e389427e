#include <core.p4>
#include v1model.p4

control C(inout standard_metadata_t standard_metadata) {
    counter(16, CounterType.packets) seen;
    table ports {
        key = { standard_metadata.ingress_port : exact; }
        actions = { NoAction; }
    }
    apply {
        ports.apply();
        seen.count(1);
    }
}
