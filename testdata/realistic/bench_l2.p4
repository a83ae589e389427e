#include "../../p4/bench/l2.p4"
