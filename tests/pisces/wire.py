"""Sends frames into every port of a switch, and receives all that leave it, with VLAN tags."""

import itertools
import selectors
import socket
import struct
import time
from collections import defaultdict
from collections.abc import Sequence

from lab.sites import Site
from tests.packet_sockets import FRAME_LEN_BYTES_MAX, SOL_PACKET, at_links
from tests.pisces.packets import NETWORK, Packet, marker, number_of

PACKET_AUXDATA = 8
AUXDATA = struct.Struct("IIIHHHH")
"""struct tpacket_auxdata of linux/if_packet.h."""
TP_STATUS_VLAN_VALID = 0x10
LIMIT_S = 120.0
QUIET_S = 0.3
AT_ONCE = 64
"""How many packets may be in a switch at once: few enough for any queue."""

Left = dict[int, list[tuple[int, str]]]
"""Maps a packet's number to each port by which the packet left, with its bytes in hexadecimal."""


def exchange(site: Site, packets: Sequence[Packet]) -> Left:
    """Sends all packets, and between them marker frames into every port; returns what left."""
    with at_links(site) as (sockets, selector):
        for one in sockets.values():
            one.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        left: Left = defaultdict(list)
        numbers = itertools.count(len(packets))
        markers: set[int] = set()
        for first in range(0, len(packets), AT_ONCE):
            for number, packet in enumerate(packets[first : first + AT_ONCE], first):
                sockets[packet.port].send(packet.frame(number))
            # A port's marker follows the port's packets. When the marker leaves the switch, the
            # packets have left the switch, too.
            pairs = zip(NETWORK.ports, numbers, strict=False)
            sent = {number: port for port, number in pairs}
            for number, behind in sent.items():
                sockets[behind.number].send(marker(behind).frame(number))
            markers |= sent.keys()
            limit_s = time.monotonic() + LIMIT_S
            while lacking := sent.keys() - left.keys():
                assert time.monotonic() < limit_s, f"no markers of {[sent[n] for n in lacking]}"
                _read(selector, left, QUIET_S)
        while _read(selector, left, QUIET_S):
            pass
    return {number: sorted(came) for number, came in left.items() if number not in markers}


def _read(selector: selectors.BaseSelector, left: Left, timeout_s: float) -> bool:
    events = selector.select(timeout_s)
    for key, _ in events:
        assert isinstance(key.fileobj, socket.socket)
        frame, extra, _, _ = key.fileobj.recvmsg(FRAME_LEN_BYTES_MAX, 256)
        for _, _, data in extra:
            status, *_, tag, tag_type = AUXDATA.unpack(data[: AUXDATA.size])
            if status & TP_STATUS_VLAN_VALID:
                # The kernel has removed the VLAN tag from the frame.
                frame = frame[:12] + struct.pack("!HH", tag_type, tag) + frame[12:]
        left[number_of(frame)].append((key.data, frame.hex()))
    return bool(events)
