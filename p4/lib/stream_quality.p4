// The UDP destination ports of the two qualities that a host sends, and for each quality the
// multicast group of the ports whose hosts receive it.
#ifndef STREAM_QUALITY_P4
#define STREAM_QUALITY_P4

#include "headers.p4"

const udp_port_t LOW_QUALITY_PORT = 6363;
const udp_port_t HIGH_QUALITY_PORT = 6364;

// The controller writes these groups, with one replica for each host.
const group_t LOW_QUALITY_GROUP = 1;
const group_t HIGH_QUALITY_GROUP = 2;

#endif
