"""Hellos: the datagrams by which a socket is signed in (docs/join.md, "Sign a socket in").

Nothing here sends or receives datagrams, or reads a clock.
"""

import enum
import hashlib
import hmac
import struct

LEN = 66
"""The length of every hello in bytes."""
SIGNED = 34
NONCE_LEN = 16
_HEADER = struct.Struct("!2sBBHIQ16s")
_MAGIC, _VERSION = b"RH", 1
_HELLO, _CHALLENGE, _WELCOME, _ALIVE = 1, 2, 3, 5

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 2.0
"""Until a hello is answered, the pause between hellos doubles, from the first to the longest."""
REFRESH_S = 1.0
"""The pause between hellos of a socket that is signed in."""
UNANSWERED_MAX = 3
"""After this many unanswered hellos in a row, the socket is no longer signed in."""


class Received(enum.Enum):
    """What a datagram from the switch means."""

    OTHER = enum.auto()
    """The datagram is media, or it has no effect on the signing in."""
    SIGNED_IN = enum.auto()
    """The socket is signed in; it was not before."""
    ALIVE = enum.auto()
    """The socket is still signed in."""
    CHALLENGED = enum.auto()
    """The service wants another hello."""


class SigningIn:
    """Signs one socket in, and keeps it signed in. Times are seconds of any clock."""

    def __init__(self, leg: int, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError(f"expected a key of 32 bytes, got {len(key)}")
        self.leg = leg
        self.is_signed_in = False
        self.next_s = 0.0
        """When the next hello is due."""
        self._key = key
        self._nonce = bytes(NONCE_LEN)
        self._sent = b""
        self._n_unanswered = 0
        self._pause_s = FIRST_PAUSE_S

    def hello(self, now_s: float, wall_ms: int) -> bytes | None:
        """Returns the hello to send now, or None if none is due; `wall_ms` is in ms since 1970."""
        if now_s < self.next_s:
            return None
        if self._n_unanswered >= UNANSWERED_MAX:
            self.is_signed_in = False
        if self.is_signed_in:
            self.next_s = now_s + REFRESH_S
        else:
            self.next_s = now_s + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._n_unanswered += 1
        self._sent = sign(self._key, _HELLO, self.leg, wall_ms, self._nonce)
        return self._sent

    def receive(self, data: bytes, now_s: float) -> Received:
        """Takes a datagram that came from the switch, and returns what the datagram means."""
        if len(data) != LEN:
            return Received.OTHER
        magic, version, kind, reserved, leg, _, nonce = _HEADER.unpack(data[:SIGNED])
        if (magic, version, reserved, leg) != (_MAGIC, _VERSION, 0, self.leg):
            return Received.OTHER
        is_signed = is_signed_with(self._key, data)
        if kind == _ALIVE and data == _alive(self._sent):
            return self._answered(now_s)
        if kind == _WELCOME and is_signed and nonce == self._nonce:
            return self._answered(now_s)
        if kind == _CHALLENGE and is_signed and nonce != self._nonce:
            self._nonce = nonce
            self.next_s = now_s
            self._pause_s = FIRST_PAUSE_S
            return Received.CHALLENGED
        return Received.OTHER

    def _answered(self, now_s: float) -> Received:
        self._n_unanswered = 0
        self._pause_s = FIRST_PAUSE_S
        if self.is_signed_in:
            return Received.ALIVE
        self.is_signed_in = True
        self.next_s = now_s + REFRESH_S
        return Received.SIGNED_IN


def is_hello(data: bytes) -> bool:
    """Whether a datagram is a hello or an answer to one, which no program wants as media."""
    return len(data) == LEN and data[:3] == _MAGIC + bytes([_VERSION])


def sign(key: bytes, kind: int, leg: int, wall_ms: int, nonce: bytes) -> bytes:
    """Encodes and signs a hello."""
    text = _HEADER.pack(_MAGIC, _VERSION, kind, 0, leg, wall_ms, nonce)
    return text + hmac.digest(key, text, hashlib.sha256)


def _alive(sent: bytes) -> bytes:
    """The switch's answer to a hello of a socket that is signed in."""
    return sent[:3] + bytes([_ALIVE]) + sent[4:]


def is_signed_with(key: bytes, data: bytes) -> bool:
    """Whether a hello has the signature of this key."""
    return hmac.compare_digest(hmac.digest(key, data[:SIGNED], hashlib.sha256), data[SIGNED:])
