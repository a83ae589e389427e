"""Makes the packets to offer: flows from one port of the published network to the other. No I/O.

The flows are UDP from the network behind port 1 to the network behind port 2. Each flow has a
different pair of hosts; when all pairs are used, further flows have another UDP port. In L2 a flow
goes directly to the station, in the other programs through the router. So every table is looked up,
and every lookup hits, except that no flow matches a denying rule. The receivers' IP addresses are
consecutive, because the sink counts frames by these addresses.
"""

from lab.frames import UdpFrame, udp_frame
from lab.pisces.network import N_ROUTES, N_SENDERS, N_STATIONS, ROUTERS, host_ip, station_mac

FRAMES_BYTES = (64, 128, 192, 256)
"""The paper's frame sizes. A frame on a veth has no FCS, so only headers and payload count."""
N_FLOWS = 64
N_RECEIVERS = N_ROUTES // 2
IN_PORT, OUT_PORT = 1, 2
FIRST_RECEIVER = host_ip(1, 0)
_HEADERS_BYTES = 42
_STRIDE = 7
"""The distance between receivers of successive flows; coprime to the number of receivers."""
_FIRST_SOURCE_PORT, _DESTINATION_PORT = 20_000, 443


def frames(program: str, n_flows: int, frame_bytes: int) -> list[bytes]:
    return [_frame(program, flow, frame_bytes) for flow in range(n_flows)]


def _frame(program: str, flow: int, frame_bytes: int) -> bytes:
    host, round_ = flow % N_RECEIVERS, flow // N_RECEIVERS
    receiver = host * _STRIDE % N_RECEIVERS
    if program == "l2":
        source, destination = station_mac(0, host % (N_STATIONS // 2)), station_mac(1, receiver)
    else:
        source, destination = station_mac(0, host % (N_SENDERS // 2)), ROUTERS[0]
    return udp_frame(
        UdpFrame(
            eth_src=source,
            eth_dst=destination,
            src_ip=str(host_ip(0, host)),
            dst_ip=str(host_ip(1, receiver)),
            src_port=_FIRST_SOURCE_PORT + round_,
            dst_port=_DESTINATION_PORT,
            payload=bytes(frame_bytes - _HEADERS_BYTES),
        )
    )
