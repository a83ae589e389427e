"""Encodes and decodes the messages of participants (lab/peers/pktswitch.md). No I/O."""

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from ipaddress import IPv4Address

MAGIC = 0x706B
VERSION = 1
LAYOUT = struct.Struct("!HBBIQIHHI")
LIFETIME_MAX_S = 86400
N_STREAMS_MAX = 4096
N_SUBSCRIPTIONS_MAX = 65536
N_PORTS_MAX = 16


class Type(IntEnum):
    SUBSCRIBE = 0x01
    UNSUBSCRIBE = 0x02
    STATISTICS = 0x03
    SUBSCRIBED = 0x81
    UNSUBSCRIBED = 0x82
    COUNTED = 0x83
    CHALLENGE = 0xC0
    REFUSED = 0xC1


class Reason(IntEnum):
    VERSION = 1
    LENGTH = 2
    TYPE = 3
    STREAM = 4
    LIFETIME = 5
    STREAMS_FULL = 6
    SUBSCRIPTIONS_FULL = 7
    PORT = 8


NEXT_STEPS = {
    Reason.VERSION: "build pktswitch and the lab from the same sources",
    Reason.LENGTH: "a message of version 1 has 28 bytes",
    Reason.TYPE: "a participant may send SUBSCRIBE, UNSUBSCRIBE and STATISTICS",
    Reason.STREAM: "the sender must be another host's address and port, the SFU's port one from "
    "1024 on that is not the one for messages",
    Reason.LIFETIME: f"ask for 1 to {LIFETIME_MAX_S} seconds",
    Reason.STREAMS_FULL: f"there are {N_STREAMS_MAX} streams; unsubscribe from one first",
    Reason.SUBSCRIPTIONS_FULL: f"there are {N_SUBSCRIPTIONS_MAX} subscriptions, or the process has "
    "no memory; unsubscribe first",
    Reason.PORT: f"streams come in at {N_PORTS_MAX} ports already, or something else has the port; "
    "choose another, or unsubscribe from all streams of one",
}

COUNTERS = (
    "packets",
    "copies",
    "copies_refused",
    "no_stream",
    "too_long",
    "not_ours",
    "malformed",
    "fragments",
    "ip_options",
    "receive_lost",
    "messages",
    "message_short",
    "message_foreign",
    "message_answer",
    "message_unanswerable",
    "challenged",
    "refused_version",
    "refused_length",
    "refused_type",
    "refused_stream",
    "refused_lifetime",
    "refused_streams_full",
    "refused_subscriptions_full",
    "refused_port",
    "subscribed",
    "refreshed",
    "unsubscribed",
    "not_subscribed",
    "statistics",
    "answers_refused",
    "expired",
    "streams",
    "subscriptions",
)
"""The counters in a COUNTED message, in the message's order."""


class MessageError(ValueError):
    """The bytes are not a message of the protocol."""


@dataclass(frozen=True, slots=True)
class StreamName:
    """Identifies a stream: its sender, and its destination port at the SFU."""

    sender_ip: IPv4Address
    sender_port: int
    sfu_port: int

    def __str__(self) -> str:
        return f"{self.sender_ip}:{self.sender_port} at port {self.sfu_port}"


NO_STREAM = StreamName(IPv4Address(0), 0, 0)


@dataclass(frozen=True, slots=True)
class Message:
    """A message.

    Depending on `type`, `value` is a lifetime, a reason, or whether there was a subscription.
    """

    type: int
    request: int
    stream: StreamName = NO_STREAM
    value: int = 0
    token: int = 0
    version: int = VERSION

    def encode(self) -> bytes:
        stream = self.stream
        return LAYOUT.pack(
            MAGIC,
            self.version,
            self.type,
            self.request,
            self.token,
            int(stream.sender_ip),
            stream.sender_port,
            stream.sfu_port,
            self.value,
        )

    def with_token(self, token: int) -> "Message":
        """The same message with `token`, which shows that the sender can receive at its address."""
        return replace(self, token=token)


def decode(data: bytes) -> Message:
    """Decodes the message at the beginning of `data`."""
    if len(data) < LAYOUT.size:
        raise MessageError(f"a message has at least {LAYOUT.size} bytes, found {len(data)}")
    magic, version, kind, request, token, ip, sender_port, sfu_port, value = LAYOUT.unpack_from(
        data
    )
    if magic != MAGIC:
        raise MessageError(f"a message begins with {MAGIC:#06x}, found {magic:#06x}")
    stream = StreamName(IPv4Address(ip), sender_port, sfu_port)
    return Message(kind, request, stream, value, token, version)


def decode_counters(data: bytes) -> dict[str, int]:
    """The counters in a COUNTED message. Counters of a later version of pktswitch are left out."""
    if decode(data).type != Type.COUNTED:
        raise MessageError(f"expected COUNTED, found type {decode(data).type:#04x}")
    lacking = LAYOUT.size + 8 * len(COUNTERS) - len(data)
    if lacking > 0:
        raise MessageError(f"COUNTED lacks {lacking} bytes of {len(COUNTERS)} counters")
    values = struct.unpack_from(f"!{len(COUNTERS)}Q", data, LAYOUT.size)
    return dict(zip(COUNTERS, values, strict=True))


def refusal(message: Message) -> str:
    """Why a message was refused, and the next step."""
    if message.value not in set(Reason):
        return f"reason {message.value}, which this version does not know"
    reason = Reason(message.value)
    return f"{reason.name.lower().replace('_', ' ')}: {NEXT_STEPS[reason]}"
