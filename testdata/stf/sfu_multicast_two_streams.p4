#include "../../p4/sfu_multicast_two_streams.p4"
