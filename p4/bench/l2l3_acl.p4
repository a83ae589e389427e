// A switch and router with an access list, for the pipeline benchmark: the eight tables of the
// L2L3-ACL pipeline that PISCES is measured with (Shahbaz et al., SIGCOMM 2016, section 5), in
// their order.
//
//   vlan_ingress -> sources -> routable -> routes -> destinations -> acl
//                                                      -> vlan_egress -> source_pruning

#include "vlan_router.p4"

control AclIngress(
    inout headers_t hdr,
    inout metadata_t meta,
    inout standard_metadata_t standard_metadata
) {
    VlanRouter() vlan_router;

    action permit() { }

    action deny() {
        mark_to_drop(standard_metadata);
        standard_metadata.mcast_grp = 0;
    }

    // The matching rule with the highest priority decides; if no rule matches, the packet is dropped.
    table acl {
        key = {
            hdr.ipv4.src_addr: ternary @name("src_addr");
            hdr.ipv4.dst_addr: ternary @name("dst_addr");
            hdr.ipv4.protocol: ternary @name("protocol");
            hdr.ports.src_port: ternary @name("src_port");
            hdr.ports.dst_port: ternary @name("dst_port");
        }
        actions = { permit; deny; }
        const default_action = deny();
        size = 1024;
    }

    apply {
        vlan_router.apply(hdr, meta, standard_metadata);
        if (hdr.ipv4.isValid()) {
            acl.apply();
        }
    }
}

V1Switch(
    VlanRouterParser(),
    VerifyIpv4(),
    AclIngress(),
    VlanRouterEgress(),
    UpdateIpv4(),
    VlanRouterDeparser()
) main;
