"""Our SRTP and libsrtp (pylibsrtp) protect packets for each other.

The packets cross a roll-over of the sequence number, some are lost, and some come late.
"""

import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pylibsrtp import Error, Policy, Session

from lab.switch import RELEASE

PROFILES = {1: (16, 14), 7: (16, 12), 8: (32, 12)}
"""For each profile's number in DTLS (RFC 5764, RFC 7714), the bytes of key and salt."""
LIBSRTP = {
    1: Policy.SRTP_PROFILE_AES128_CM_SHA1_80,
    7: Policy.SRTP_PROFILE_AEAD_AES_128_GCM,
    8: Policy.SRTP_PROFILE_AEAD_AES_256_GCM,
}
N_PACKETS = 1_500


class Ours:
    """The example `srtp` as a process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, verb: str, kind: str, packet: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{verb} {kind} {packet.hex()}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().strip()
        if answer.startswith("refused: "):
            raise ValueError(answer)
        return bytes.fromhex(answer)


@contextmanager
def ours(profile: int, key: bytes, salt: bytes) -> Iterator[Ours]:
    pipe = subprocess.PIPE
    argv = [RELEASE / "examples" / "srtp"]
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        process.stdin.write(f"{profile} {key.hex()} {salt.hex()}\n")
        yield Ours(process)


def theirs(profile: int, key: bytes, salt: bytes, direction: int) -> Session:
    policy = Policy(key=key + salt, ssrc_type=direction, srtp_profile=LIBSRTP[profile])
    policy.window_size = 128
    return Session(policy)


def rtp(sequence: int, chance: random.Random) -> bytes:
    n_csrcs, has_extension = chance.randrange(3), chance.random() < 0.5
    first = 0x80 | n_csrcs | (0x10 if has_extension else 0)
    header = bytes([first, 96]) + (sequence & 0xFFFF).to_bytes(2, "big") + chance.randbytes(4)
    header += b"\0\0\0\x07" + chance.randbytes(4 * n_csrcs)
    if has_extension:
        header += b"\xbe\xde\0\x01\x10\x55\0\0"
    return header + chance.randbytes(chance.randrange(1_200))


def rtcp(chance: random.Random) -> bytes:
    return b"\x80\xc9\0\x01\0\0\0\x07" + chance.randbytes(4 * chance.randrange(20))


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("sender", ["ours", "libsrtp"])
def test_what_one_protects_the_other_reads(profile: int, sender: str) -> None:
    chance = random.Random(profile)
    key, salt = (chance.randbytes(n_bytes) for n_bytes in PROFILES[profile])
    with ours(profile, key, salt) as our:
        if sender == "ours":
            session = theirs(profile, key, salt, Policy.SSRC_ANY_INBOUND)
        else:
            session = theirs(profile, key, salt, Policy.SSRC_ANY_OUTBOUND)

        def passes(kind: str, packet: bytes) -> bytes:
            if sender == "ours":
                return our.ask("protect", kind, packet)
            return session.protect(packet) if kind == "rtp" else session.protect_rtcp(packet)

        def reads(kind: str, packet: bytes) -> bytes:
            if sender == "libsrtp":
                return our.ask("unprotect", kind, packet)
            return session.unprotect(packet) if kind == "rtp" else session.unprotect_rtcp(packet)

        late: list[tuple[bytes, bytes]] = []
        sequence = 0x7000
        for _ in range(N_PACKETS):
            sequence += chance.choice((1, 1, 1, 2, 300))
            packet = rtp(sequence, chance)
            protected = passes("rtp", packet)
            if chance.random() < 0.1:
                late = [(packet, protected)]
                continue
            assert reads("rtp", protected) == packet
            with pytest.raises((Error, ValueError)):
                reads("rtp", protected)
            report = rtcp(chance)
            assert reads("rtcp", passes("rtcp", report)) == report
            for packet, protected in late:
                if sequence - int.from_bytes(packet[2:4], "big") & 0xFFFF < 100:
                    assert reads("rtp", protected) == packet
            late.clear()
        assert sequence > 0x1_8000


@pytest.mark.parametrize("profile", PROFILES)
def test_a_packet_of_another_key_is_refused(profile: int) -> None:
    chance = random.Random(profile)
    key, salt = (chance.randbytes(n_bytes) for n_bytes in PROFILES[profile])
    other = theirs(profile, chance.randbytes(len(key)), salt, Policy.SSRC_ANY_OUTBOUND)
    with ours(profile, key, salt) as our:
        with pytest.raises(ValueError, match="the tag is wrong"):
            our.ask("unprotect", "rtp", other.protect(rtp(1, chance)))
        with pytest.raises(ValueError, match="the tag is wrong"):
            our.ask("unprotect", "rtcp", other.protect_rtcp(rtcp(chance)))
