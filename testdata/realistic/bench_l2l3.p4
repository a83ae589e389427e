#include "../../p4/bench/l2l3.p4"
