"""A member of a group of authenticated ordered multicast (docs/aom.md).

    with Member.join("replica-0.member") as member:
        for event in member:
            match event:
                case Message(payload=payload): apply(payload)
                case DropNotification(first=first, last=last): ask_the_others_for(first, last)
                case Evidence(): the sequencer equivocates

A process that only sends needs no member: `request` makes the datagram for the group's address.

It uses the C interface, `aom.h`; the library is beside this file, or at AOM_LIBRARY.
"""

import hashlib
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

from cffi import FFI

__all__ = [
    "UDP_PORT",
    "Counters",
    "DropNotification",
    "Error",
    "Event",
    "Evidence",
    "Member",
    "Message",
    "proved_number",
    "request",
]

UDP_PORT = 60004
"""Where requests are sent."""

_HERE = Path(__file__).parent


class Error(Exception):
    """What the library says that went wrong, with the next step."""


@dataclass(frozen=True, slots=True)
class Message:
    """The next message; `certificate` shows it to another member."""

    epoch: int
    sequence: int
    payload: bytes
    certificate: bytes


@dataclass(frozen=True, slots=True)
class DropNotification:
    """The next numbers, from `first` to `last`, have no message here; there may be billions."""

    epoch: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """The sequencer authenticated two contents under one number: their hashes."""

    epoch: int
    sequence: int
    first: bytes
    second: bytes


Event = Message | DropNotification | Evidence


@dataclass(frozen=True, slots=True)
class Counters:
    """How many datagrams came, and how many of them were refused, by reason (`aom.h`)."""

    datagrams: int
    malformed: int
    other_group: int
    other_epoch: int
    wrong_shard: int
    no_number: int
    wrong_digest: int
    forged: int
    broken_link: int
    replayed: int
    beyond_window: int
    too_many: int
    confirms_of_strangers: int
    confirms_forged: int
    confirms_late: int
    confirms_contradictory: int
    confirms_beyond_window: int
    confirms_unsent: int


def request(message: bytes, *, group: int = 0, signed: bool = False) -> bytes:
    """The datagram that asks the sequencer to order a message (docs/aom.md, "On the wire").

    `group` is the group's number, where its address does not tell it; `signed`: its variant.
    """
    digest = hashlib.sha256(message).digest()[:8]
    header = struct.pack(">B3xBBHI8s", 1, 0, 0, group, 0, digest)
    return header + bytes(96 if signed else 16) + message


def proved_number(certificate: bytes) -> tuple[int, int]:
    """Epoch and number that a certificate is of; `Member.verify` says whether it is genuine."""
    epoch, sequence = _ffi.new("uint64_t *"), _ffi.new("uint32_t *")
    _checked(_lib.aom_certificate_number(certificate, len(certificate), epoch, sequence))
    return epoch[0], sequence[0]


def _declarations(header: str) -> str:
    """What cffi reads of the header: neither directives nor what is for C++."""
    without_cpp = re.sub(r"#ifdef __cplusplus.*?#endif", "", header, flags=re.DOTALL)
    return re.sub(r"^#.*$", "", without_cpp, flags=re.MULTILINE)


_ffi = FFI()
_ffi.cdef(_declarations((_HERE / "aom.h").read_text()))
_lib: Any = _ffi.dlopen(os.environ.get("AOM_LIBRARY", str(_HERE / "libaom_c.so")))


class Member:
    """A member of a group. Threads may share it; `leave` ends it for all of them."""

    def __init__(self, handle: Any) -> None:
        """Use `join`."""
        self._handle = handle

    @classmethod
    def join(cls, member_file: str | os.PathLike[str], timeout_s: float = 10.0) -> "Member":
        """Joins the group that the member file is of."""
        path = os.fspath(member_file).encode()
        handle = _lib.aom_join(path, _milliseconds(timeout_s))
        if handle == _ffi.NULL:
            raise _error()
        return cls(_ffi.gc(handle, _lib.aom_leave))

    def send(self, message: bytes) -> None:
        """Sends a request to the group; whether it arrives is not told."""
        _checked(_lib.aom_send(self._live(), message, len(message)))

    def next(self, timeout_s: float) -> Event | None:
        """The next event, waited for at most so long."""
        place = _ffi.new("aom_event **")
        if not _checked(_lib.aom_next(self._live(), _milliseconds(timeout_s), place)):
            return None
        event = _ffi.gc(place[0], _lib.aom_event_free)
        return _event(event)

    def __iter__(self) -> Iterator[Event]:
        """Events, for ever."""
        while True:
            if (event := self.next(3600.0)) is not None:
                yield event

    def verify(self, certificate: bytes, message: bytes) -> bool:
        """Whether this member can believe what another shows it: the certificate's own number.

        Compare `proved_number` with the number that was asked for.
        """
        return bool(
            _checked(
                _lib.aom_verify(self._live(), certificate, len(certificate), message, len(message))
            )
        )

    def certificate(self, message: Message) -> bytes:
        """The message's certificate with what has come since its delivery, to be shown to another.

        If somebody sends false tags, it convinces members that the message's own does not.
        """
        place = _ffi.new("aom_event **")
        number = (message.epoch, message.sequence)
        if not _checked(_lib.aom_certificate(self._live(), *number, place)):
            return message.certificate
        return _bytes(_lib.aom_event_certificate, _ffi.gc(place[0], _lib.aom_event_free))

    @property
    def counters(self) -> Counters:
        """As they are now."""
        place = _ffi.new("aom_counters *")
        _checked(_lib.aom_count(self._live(), place))
        names = (field.name for field in fields(Counters))
        return Counters(**{name: getattr(place, name) for name in names})

    def leave(self) -> None:
        """Leaves the group, once no thread waits for an event; what was not told is gone."""
        self._handle = None

    def __enter__(self) -> "Member":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()

    def _live(self) -> Any:
        if self._handle is None:
            raise Error("expected a member that is in its group, found one that has left")
        return self._handle


def _event(event: Any) -> Event:
    epoch, sequence = _lib.aom_event_epoch(event), _lib.aom_event_sequence(event)
    kind = _lib.aom_event_kind(event)
    if kind == _lib.AOM_MESSAGE:
        payload = _bytes(_lib.aom_event_message, event)
        return Message(epoch, sequence, payload, _bytes(_lib.aom_event_certificate, event))
    if kind == _lib.AOM_DROP:
        return DropNotification(epoch, sequence, _lib.aom_event_last_sequence(event))
    hashes = bytes(_ffi.buffer(_lib.aom_event_hashes(event), 64))
    return Evidence(epoch, sequence, hashes[:32], hashes[32:])


def _bytes(part: Any, event: Any) -> bytes:
    n_bytes = _ffi.new("size_t *")
    start = part(event, n_bytes)
    return bytes(_ffi.buffer(start, n_bytes[0])) if n_bytes[0] else b""


def _milliseconds(seconds: float) -> int:
    return max(0, min(round(seconds * 1000), 2**32 - 1))


def _checked(result: int) -> int:
    if result < 0:
        raise _error()
    return result


def _error() -> Error:
    text: bytes = _ffi.string(_lib.aom_error())
    return Error(text.decode())
