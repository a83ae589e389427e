"""Sends participants' messages to pktswitch from the hosts' ends of a site's links.

The hosts of a site (`lab.sites`) are only addresses. So this module makes the frames of the
messages itself, and receives answers before the hosts' kernel processes them. A socket filter lets
only answers through, so that other packets do not disturb this module, however many they are.
"""

import ctypes
import itertools
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from lab.frames import UdpFrame, parse_udp, udp_frame
from lab.process import ChildError
from lab.rows.pktswitch_messages import Message, MessageError, Type, decode, refusal
from lab.sites import SFU_IP, Participant, Site

CONTROL_PORT = 5003
"""The SFU's UDP port for messages. Streams use other ports."""
WINDOW = 64
"""How many messages may await answers at once. The SFU's buffers have room for this many
messages."""
RETRY_S = 0.25
NO_ANSWER_S = 5.0
ETH_P_ALL = 3
SOL_PACKET = 263
PACKET_IGNORE_OUTGOING = 23
SO_ATTACH_FILTER = 26


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A participant's address and UDP port, for its messages and the copies that it gets."""

    participant: Participant
    udp_port: int

    def __str__(self) -> str:
        return f"{self.participant.ip}:{self.udp_port}"


@dataclass(slots=True)
class _Asked:
    endpoint: Endpoint
    message: Message
    sent_s: float = 0.0


class Participants:
    """The participants of a site, with the tokens that pktswitch gave them."""

    def __init__(self, site: Site, require_running: Callable[[], None]) -> None:
        self._site = site
        self._require_running = require_running
        self._tokens: dict[Endpoint, int] = {}
        self._numbers = itertools.count(1)

    def ask(self, messages: Sequence[tuple[Endpoint, Message]]) -> list[bytes]:
        """Sends messages until each has an answer; returns the answers in the same order.

        Raises `ChildError` if a message is refused or gets no answer. A message may be sent
        repeatedly.
        """
        self._require_running()
        return self._site.hosts.call(lambda: self._ask(messages))

    def next_number(self) -> int:
        """The request number for a new message."""
        return next(self._numbers) & 0xFFFFFFFF

    def _ask(self, messages: Sequence[tuple[Endpoint, Message]]) -> list[bytes]:
        waiting = deque(_Asked(endpoint, message) for endpoint, message in messages)
        pending: dict[int, _Asked] = {}
        answers: dict[int, bytes] = {}
        last_answer_s = time.monotonic()
        with _packet_socket() as packets:
            while waiting or pending:
                while waiting and len(pending) < WINDOW:
                    asked = waiting.popleft()
                    pending[asked.message.request] = asked
                for asked in pending.values():
                    self._send(packets, asked)
                for datagram in _datagrams(packets, RETRY_S):
                    if self._is_answered(datagram, pending):
                        answers[decode(datagram.payload).request] = datagram.payload
                        last_answer_s = time.monotonic()
                if time.monotonic() - last_answer_s > RETRY_S:
                    self._require_running()
                if time.monotonic() - last_answer_s > NO_ANSWER_S:
                    raise ChildError(_unanswered(next(iter(pending.values()))))
        return [answers[message.request] for _, message in messages]

    def _send(self, packets: socket.socket, asked: _Asked) -> None:
        now_s = time.monotonic()
        if now_s - asked.sent_s < RETRY_S:
            return
        asked.sent_s = now_s
        token = self._tokens.get(asked.endpoint, 0)
        participant = asked.endpoint.participant
        link = self._site.links[participant.port - 1]
        frame = udp_frame(
            UdpFrame(
                eth_src=participant.mac,
                eth_dst=link.sfu_mac,
                src_ip=str(participant.ip),
                dst_ip=str(SFU_IP),
                src_port=asked.endpoint.udp_port,
                dst_port=CONTROL_PORT,
                payload=asked.message.with_token(token).encode(),
            )
        )
        # The queue may be full or the link down; the message is sent again later.
        with suppress(OSError):
            packets.sendto(frame, (link.host_interface, 0))

    def _is_answered(self, datagram: UdpFrame, pending: dict[int, _Asked]) -> bool:
        """Whether a datagram answers a pending message. If so, the message is no longer pending."""
        # A few frames may have come before the filter was attached.
        if (datagram.src_ip, datagram.src_port) != (str(SFU_IP), CONTROL_PORT):
            return False
        try:
            answer = decode(datagram.payload)
        except MessageError:
            return False
        asked = pending.get(answer.request)
        if asked is None or f"{datagram.dst_ip}:{datagram.dst_port}" != str(asked.endpoint):
            return False
        if answer.type == Type.CHALLENGE:
            self._tokens[asked.endpoint] = answer.token
            asked.sent_s = 0.0
            return False
        if answer.type == Type.REFUSED:
            raise ChildError(
                f"pktswitch refused {Type(asked.message.type).name} to "
                f"{asked.message.stream} of {asked.endpoint}: {refusal(answer)}"
            )
        if answer.type != asked.message.type | 0x80:
            return False
        del pending[answer.request]
        return True


def _unanswered(asked: _Asked) -> str:
    kind = Type(asked.message.type).name
    return (
        f"pktswitch runs, but did not answer {kind} of {asked.endpoint} within "
        f"{NO_ANSWER_S:.0f} s: see whether it has been stopped (its state in /proc/PID/status), "
        f"and whether link {asked.endpoint.participant.port} is up at both ends"
    )


def _packet_socket() -> socket.socket:
    """Opens one packet socket for the answers from all links.

    Closing a socket for each link would take a second.
    """
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    packets.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    _attach_filter(packets)
    return packets


def _datagrams(packets: socket.socket, timeout_s: float) -> Iterator[UdpFrame]:
    """Yields the datagrams that are waiting. If there is none, waits for one until the timeout."""
    readable, _, _ = select.select([packets], [], [], timeout_s)
    with suppress(BlockingIOError):
        for _ in range(WINDOW if readable else 0):
            datagram = parse_udp(packets.recv(2048, socket.MSG_DONTWAIT))
            if datagram is not None:
                yield datagram


def _attach_filter(one: socket.socket) -> None:
    """Lets in only UDP over IPv4 from the SFU's message port (linux/filter.h: code, jt, jf, k)."""
    load_half, load_byte, load_word, skip_unless, accept = 0x28, 0x30, 0x20, 0x15, 0x06
    program = [
        (load_half, 0, 0, 12),
        (skip_unless, 0, 7, 0x0800),
        (load_byte, 0, 0, 23),
        (skip_unless, 0, 5, socket.IPPROTO_UDP),
        (load_word, 0, 0, 26),
        (skip_unless, 0, 3, int(SFU_IP)),
        (load_half, 0, 0, 34),
        (skip_unless, 0, 1, CONTROL_PORT),
        (accept, 0, 0, 0xFFFF),
        (accept, 0, 0, 0),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in program))
    fprog = struct.pack("HP", len(program), ctypes.addressof(code))
    one.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, fprog)
