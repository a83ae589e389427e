"""Members of a group with authenticated ordered multicast (docs/aom.md).

    with Member.join("replica-0.member") as member:
        for event in member:
            match event:
                case Message(payload=payload): apply(payload)
                case DropNotification(first=first, last=last): ask_the_others_for(first, last)
                case Evidence(): the sequencer equivocates

A process that only sends does not have to be a member. `request` makes the datagram for the group's
address.

The package uses the C interface, `aom.h`. The library is in the folder of this file, or at the path
in the environment variable AOM_LIBRARY.
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
"""The UDP port to which requests are sent."""

_HERE = Path(__file__).parent


class Error(Exception):
    """An error of the library. The text contains the cause and the next step."""


@dataclass(frozen=True, slots=True)
class Message:
    """The group's next message, in order. `certificate` proves the message to another member."""

    epoch: int
    sequence: int
    payload: bytes
    certificate: bytes


@dataclass(frozen=True, slots=True)
class DropNotification:
    """The member got no messages for the next numbers, `first` to `last`; these may be billions."""

    epoch: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """The hashes of two contents that the sequencer authenticated with the same number."""

    epoch: int
    sequence: int
    first: bytes
    second: bytes


Event = Message | DropNotification | Evidence


@dataclass(frozen=True, slots=True)
class Counters:
    """The number of received datagrams, and of refused datagrams by reason (`aom.h`)."""

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
    """Returns the request to order a message (docs/aom.md, "On the wire").

    `group` is the group's number, which is necessary if the address does not identify the group.
    `signed` selects the variant with signatures.
    """
    digest = hashlib.sha256(message).digest()[:8]
    header = struct.pack(">B3xBBHI8s", 1, 0, 0, group, 0, digest)
    return header + bytes(96 if signed else 16) + message


def proved_number(certificate: bytes) -> tuple[int, int]:
    """Returns a certificate's epoch and number.

    `Member.verify` checks whether the certificate is valid.
    """
    epoch, sequence = _ffi.new("uint64_t *"), _ffi.new("uint32_t *")
    _checked(_lib.aom_certificate_number(certificate, len(certificate), epoch, sequence))
    return epoch[0], sequence[0]


def _declarations(header: str) -> str:
    """Returns the header for cffi, without directives and without the parts for C++."""
    without_cpp = re.sub(r"#ifdef __cplusplus.*?#endif", "", header, flags=re.DOTALL)
    return re.sub(r"^#.*$", "", without_cpp, flags=re.MULTILINE)


_ffi = FFI()
_ffi.cdef(_declarations((_HERE / "aom.h").read_text()))
_lib: Any = _ffi.dlopen(os.environ.get("AOM_LIBRARY", str(_HERE / "libaom_c.so")))


class Member:
    """A member of a group.

    Threads may share a member. `leave` ends the membership for all threads.
    """

    def __init__(self, handle: Any) -> None:
        """Wraps a handle of the library. Callers should use `join`."""
        self._handle = handle

    @classmethod
    def join(cls, member_file: str | os.PathLike[str], timeout_s: float = 10.0) -> "Member":
        """Joins the group of the member file."""
        path = os.fspath(member_file).encode()
        handle = _lib.aom_join(path, _milliseconds(timeout_s))
        if handle == _ffi.NULL:
            raise _error()
        return cls(_ffi.gc(handle, _lib.aom_leave))

    def send(self, message: bytes) -> None:
        """Sends a request to the group. The caller does not learn whether the request arrives."""
        _checked(_lib.aom_send(self._live(), message, len(message)))

    def next(self, timeout_s: float) -> Event | None:
        """Waits for the next event, at most for this time. Returns None if there is no event."""
        place = _ffi.new("aom_event **")
        if not _checked(_lib.aom_next(self._live(), _milliseconds(timeout_s), place)):
            return None
        event = _ffi.gc(place[0], _lib.aom_event_free)
        return _event(event)

    def __iter__(self) -> Iterator[Event]:
        """Yields events without end."""
        while True:
            if (event := self.next(3600.0)) is not None:
                yield event

    def verify(self, certificate: bytes, message: bytes) -> bool:
        """Checks whether a certificate from another member proves the message.

        The certificate is only valid for the number that it contains. So the caller has to compare
        the result of `proved_number` with the number that the caller asked for.
        """
        return bool(
            _checked(
                _lib.aom_verify(self._live(), certificate, len(certificate), message, len(message))
            )
        )

    def certificate(self, message: Message) -> bytes:
        """Returns the message's certificate, including tags that came after the delivery.

        The returned certificate is for other members. If an attacker sent false tags, the message
        may have been delivered with them. Some members then refuse `message.certificate`, but
        accept the returned certificate, which also has the later tags.
        """
        place = _ffi.new("aom_event **")
        number = (message.epoch, message.sequence)
        if not _checked(_lib.aom_certificate(self._live(), *number, place)):
            return message.certificate
        return _bytes(_lib.aom_event_certificate, _ffi.gc(place[0], _lib.aom_event_free))

    @property
    def counters(self) -> Counters:
        """The current counts."""
        place = _ffi.new("aom_counters *")
        _checked(_lib.aom_count(self._live(), place))
        names = (field.name for field in fields(Counters))
        return Counters(**{name: getattr(place, name) for name in names})

    def leave(self) -> None:
        """Leaves the group as soon as no thread waits for an event. Pending events are lost."""
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
