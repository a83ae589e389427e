#include "../../p4/bench/l2l3_acl.p4"
