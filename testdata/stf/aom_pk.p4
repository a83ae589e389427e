#include "../../p4/aom_pk.p4"
