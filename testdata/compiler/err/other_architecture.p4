#include <core.p4>
#include <psa.p4>

control Ingress(inout psa_ingress_output_metadata_t ostd) {
    apply { ostd.drop = true; }
}
