// A switch and router, for the comparison with Open vSwitch. It is the pipeline L2L3 of PISCES (Shahbaz et al., SIGCOMM
// 2016), which is L2L3-ACL (l2l3_acl.p4) without the access list.
//
//   vlan_ingress -> sources -> routable -> routes -> destinations -> vlan_egress -> source_pruning

#include "vlan_router.p4"

V1Switch(
    VlanRouterParser(),
    VerifyIpv4(),
    VlanRouter(),
    VlanRouterEgress(),
    UpdateIpv4(),
    VlanRouterDeparser()
) main;
