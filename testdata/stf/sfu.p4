#include "../../p4/sfu.p4"
