"""For tests: a sequencer that knows a group's tag keys and can send members different messages."""

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path

LANES = 4
TAGGED = 2
INITIAL = (0x70736575, 0x6E646F6D, 0x6E657261, 0x79746573)


@dataclass(frozen=True)
class LyingSequencer:
    """Makes datagrams for one epoch of a group. It needs neither switch nor service."""

    group: int
    epoch: int
    keys: tuple[bytes, ...]

    @classmethod
    def of(cls, folder: Path, name: str = "counter") -> "LyingSequencer":
        """Takes the group's epoch and keys from the service's folder."""
        group = json.loads((folder / "state.json").read_text())["groups"][name]
        epoch = group["current"]
        keys = tuple(bytes.fromhex(key) for key in epoch["keys"])
        return cls(group["number"], epoch["number"], keys)

    def packets(self, number: int, message: bytes) -> list[bytes]:
        """The datagrams that a sequencer sends to each receiver for a message: one for each shard.

        A shard is `LANES` successive keys of the group. Its datagram has the tags that these keys
        make.
        """
        return [self._packet(shard, number, message) for shard in range(len(self.keys) // LANES)]

    def _packet(self, shard: int, number: int, message: bytes) -> bytes:
        digest = hashlib.sha256(message).digest()[:8]
        stamp = struct.pack(">BBHI8s", self.epoch % 256, shard, self.group, number, digest)
        keys = self.keys[LANES * shard : LANES * (shard + 1)]
        tags = b"".join(_tag(key, stamp).to_bytes(4, "big") for key in keys)
        # The tags cover only the low 8 bits of the epoch.
        return bytes([TAGGED]) + self.epoch.to_bytes(4, "big") + stamp[1:] + tags + message


def _tag(key: bytes, stamp: bytes) -> int:
    """HalfSipHash-2-4 as docs/aom.md specifies it."""
    k0, k1 = struct.unpack(">II", key)
    v: list[int] = [word ^ first for word, first in zip((k0, k1, k0, k1), INITIAL, strict=True)]
    for word in struct.unpack(">4I", stamp):
        v[3] ^= word
        _rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    _rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def _rounds(v: list[int], n_rounds: int) -> None:
    for _ in range(n_rounds):
        _half(v, 0, 1, 5, 16)
        _half(v, 2, 3, 8, 0)
        _half(v, 0, 3, 7, 0)
        _half(v, 2, 1, 13, 16)


def _half(v: list[int], a: int, b: int, by: int, by_then: int) -> None:
    v[a] = (v[a] + v[b]) % 2**32
    v[b] = _rotated(v[b], by) ^ v[a]
    v[a] = _rotated(v[a], by_then)


def _rotated(word: int, by: int) -> int:
    return (word << by | word >> (32 - by)) % 2**32
