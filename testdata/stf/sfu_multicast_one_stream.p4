#include "../../p4/sfu_multicast_one_stream.p4"
