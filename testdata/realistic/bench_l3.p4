#include "../../p4/bench/l3.p4"
