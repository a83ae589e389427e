#include "../../p4/aom_hm_rounds.p4"
