#include "../../p4/sfu_recirculation.p4"
