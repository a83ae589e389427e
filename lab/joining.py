"""Registers hosts' UDP sockets with a conference by hello packets (docs/join.md: "signs in").

The lab sends hellos as Ethernet frames, because no kernel has the hosts' addresses.
"""

import selectors
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from lab.frames import UdpFrame, parse_udp, udp_frame
from lab.process import REPOSITORY, ChildError
from lab.sites import SFU_IP, SFU_UDP_PORT, Link, Participant, Site

# The lab and the client library run without being installed, so the library's folder is added here.
if (_CLIENT := str(REPOSITORY / "python" / "conference")) not in sys.path:
    sys.path.append(_CLIENT)
from reprise_conference import Client, MediaSocket, ProblemError, SigningIn

__all__ = ["Client", "Leg", "MediaSocket", "ProblemError", "sign_in"]

SIGN_IN_LIMIT_S = 120.0
AT_ONCE = 4
ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
FRAME_LEN_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Leg:
    """The number and the key by which the service knows a participant's socket."""

    number: int
    key: bytes


def sign_in(site: Site, legs: Mapping[Participant, Leg]) -> None:
    """Signs in each participant's socket (UDP port 5004) by hello packets.

    Signs in only a few sockets at a time, as when people join one after the other. Raises
    `ChildError` if a participant gets no welcome from the service.
    """
    everybody = [*legs.items()]
    for first in range(0, len(everybody), AT_ONCE):
        _sign_in(site, dict(everybody[first : first + AT_ONCE]))


def _sign_in(site: Site, legs: Mapping[Participant, Leg]) -> None:
    links = [link for link in site.links if any(one.port == link.port for one in legs)]
    signing = {
        str(participant.ip): (participant, SigningIn(leg.number, leg.key))
        for participant, leg in legs.items()
    }
    with ExitStack() as stack:
        selector = stack.enter_context(selectors.DefaultSelector())
        sockets = site.hosts.call(lambda: _packet_sockets(links))
        for one in sockets.values():
            selector.register(stack.enter_context(one), selectors.EVENT_READ)
        until_s = time.monotonic() + SIGN_IN_LIMIT_S
        while waiting := [pair for pair in signing.values() if not pair[1].is_signed_in]:
            if time.monotonic() > until_s:
                lacking = ", ".join(str(participant.number) for participant, _ in waiting)
                raise ChildError(
                    f"no welcome for participants {lacking} within {SIGN_IN_LIMIT_S:g} s"
                )
            for participant, its in waiting:
                mac = site.link_of(participant.number).sfu_mac
                _say_hello(sockets[participant.port], participant, its, mac)
            soonest_s = min(its.next_s for _, its in waiting)
            for key, _ in selector.select(max(0.001, soonest_s - time.monotonic())):
                found = key.fileobj
                assert isinstance(found, socket.socket)
                answer = parse_udp(found.recv(FRAME_LEN_BYTES_MAX))
                if answer is not None and answer.dst_ip in signing:
                    signing[answer.dst_ip][1].receive(answer.payload, time.monotonic())


def _say_hello(link: socket.socket, participant: Participant, its: SigningIn, mac: str) -> None:
    hello = its.hello(time.monotonic(), time.time_ns() // 1_000_000)
    if hello is None:
        return
    link.send(
        udp_frame(
            UdpFrame(
                eth_src=participant.mac,
                eth_dst=mac,
                src_ip=str(participant.ip),
                dst_ip=str(SFU_IP),
                src_port=SFU_UDP_PORT,
                dst_port=SFU_UDP_PORT,
                payload=hello,
            )
        )
    )


def _packet_sockets(links: Iterable[Link]) -> dict[int, socket.socket]:
    """Opens a socket for whole frames at the hosts' end of each link. Returns them by port."""
    made = {}
    for link in links:
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        one.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        one.bind((link.host_interface, ETH_P_ALL))
        made[link.port] = one
    return made
