// The two qualities that a participant sends in, told apart by UDP destination port, and the
// multicast group of each: the ports whose hosts take it.
#ifndef STREAM_QUALITY_P4
#define STREAM_QUALITY_P4

#include "headers.p4"

const udp_port_t LOW_QUALITY_PORT = 6363;
const udp_port_t HIGH_QUALITY_PORT = 6364;

// Written by the controller, one replica a host.
const group_t LOW_QUALITY_GROUP = 1;
const group_t HIGH_QUALITY_GROUP = 2;

#endif
