#include "../../p4/aom_hm.p4"
