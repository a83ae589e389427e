// `type` makes a type of its own: casts to and from it, comparison, in keys (sections 7.6, 8.24).
type bit<16> vlan_id_t;
type vlan_id_t tenant_t;
header data_t {
    vlan_id_t vlan;
    bit<16>   other;
}
struct headers_t { data_t data; }
struct metadata_t { tenant_t tenant; }
#include "include/one_header.p4"

INGRESS {
    action rewrite(vlan_id_t to) { hdr.data.vlan = to; }
    table by_vlan {
        key = { hdr.data.vlan: exact; }
        actions = { rewrite; NoAction; }
        default_action = NoAction();
        const entries = { (vlan_id_t) 7: rewrite((vlan_id_t) 700); }
    }
    apply {
        meta.tenant = (tenant_t) hdr.data.vlan;
        by_vlan.apply();
        if (meta.tenant == (tenant_t) (vlan_id_t) 8) {
            hdr.data.other = (bit<16>) hdr.data.vlan + 1;
        }
    }
}

PROGRAM;
