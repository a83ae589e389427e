"""Sends valid and invalid frames to pktswitch (lab/peers/pktswitch.md); receives its answers."""

import socket
import time
from collections.abc import Sequence

from lab.frames import UdpFrame, parse_udp, udp_frame
from lab.rows.pktswitch_messages import (
    LIFETIME_MAX_S,
    Message,
    Reason,
    StreamName,
    Type,
    decode,
)
from lab.rows.pktswitch_participants import CONTROL_PORT, Endpoint
from lab.sites import Site, Stream
from tests.packet_sockets import FRAME_LEN_BYTES_MAX, packet_socket
from tests.rows.exchange import LIMIT_S, datagram

MARK = Message(0x7F, 0xFFFFFFFF)
"""A message that is always refused. The refusal shows that all earlier frames were handled."""


def message_frame(site: Site, source: Endpoint, message: bytes | Message) -> bytes:
    data = message.encode() if isinstance(message, Message) else message
    return udp_frame(datagram(site, source.participant, source.udp_port, CONTROL_PORT, data))


def after(site: Site, frames: Sequence[bytes]) -> list[UdpFrame]:
    """Sends fewer than 64 frames; returns the first link's datagrams until all were handled."""
    parsed = [parse_udp(frame) for frame in frames_after(site, frames)]
    return [one for one in parsed if one is not None]


def frames_after(site: Site, frames: Sequence[bytes]) -> list[bytes]:
    """Does the same as `after`, but returns whole frames as bytes."""
    came: list[bytes] = []
    marking = Endpoint(site.participant(1), 9)
    with site.hosts.call(lambda: packet_socket(site.links[0].host_interface)) as one:
        one.settimeout(LIMIT_S)
        for frame in frames:
            one.send(frame)
        # Messages have a ring of their own, so the first mark may be handled before the packets.
        # The packets are handled before the second mark.
        for _ in range(2):
            one.send(message_frame(site, marking, MARK))
            came += _until_marked(one)
    return came


def _until_marked(one: socket.socket) -> list[bytes]:
    came: list[bytes] = []
    deadline_s = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline_s:
        frame = one.recv(FRAME_LEN_BYTES_MAX)
        if (seen := parse_udp(frame)) is None:
            continue
        if seen.dst_port == 9:
            return came
        came.append(frame)
    raise AssertionError(f"no answer to the mark within {LIMIT_S} s; before it came {came}")


def answers(site: Site, said: Sequence[tuple[Endpoint, bytes | Message]]) -> list[Message]:
    came = after(site, [message_frame(site, *one) for one in said])
    return [decode(one.payload) for one in came if one.src_port == CONTROL_PORT]


def answer(site: Site, source: Endpoint, message: bytes | Message) -> Message:
    """Sends a message; returns its only answer, which must come to the message's source."""
    came = after(site, [message_frame(site, source, message)])
    assert [(one.dst_ip, one.dst_port) for one in came] == [
        (str(source.participant.ip), source.udp_port)
    ]
    return decode(came[0].payload)


def token_of(site: Site, endpoint: Endpoint) -> int:
    """Returns the token of pktswitch's challenge, which this endpoint must send in its messages."""
    challenge = answer(site, endpoint, Message(Type.STATISTICS, 1))
    assert challenge.type == Type.CHALLENGE
    return challenge.token


def name_of(stream: Stream) -> StreamName:
    return StreamName(stream.sender.ip, stream.udp_port, stream.udp_port)


def subscribe(stream: StreamName, token: int, lifetime_s: int = LIFETIME_MAX_S) -> Message:
    return Message(Type.SUBSCRIBE, 2, stream, lifetime_s, token)


def unsubscribe(stream: StreamName, token: int) -> Message:
    return Message(Type.UNSUBSCRIBE, 3, stream, 0, token)


def is_refused(message: Message, reason: Reason) -> bool:
    return (message.type, message.value) == (Type.REFUSED, reason)
