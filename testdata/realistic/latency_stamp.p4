#include "../../p4/latency_stamp.p4"
