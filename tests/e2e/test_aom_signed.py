"""A signed group with real sockets, and its signer on a port of the switch."""

import hashlib
import json
import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aom import UDP_PORT, DropNotification, Event, Message, request

from lab.process import Child, run
from tests.e2e import secp256k1
from tests.e2e.aom_group import Client, Group, altered, brief, messages, next_events, number_of
from tests.e2e.ordered import AOM_PK, SIGNER, Ordered, ordered

N_MEMBERS = 3
CLIENT, SIGNER_HOST = 4, 5
FULL = ("--pool", "1000", "--fill", "1000")
# The pool has so few nonces that the signer signs only every 64th packet, or the first packet that
# comes 1 ms or more after the first unsigned packet.
STARVED = ("--pool", "65536", "--fill", "200", "--threads", "0")
FRESH = ("--fresh-nonces",)
CERTIFICATE_HEAD = struct.Struct(">BHQI64s32s")
"""The first fields of a certificate: kind of proof, group, epoch, number, signature, link.
The hashes of later messages follow, up to the signed message."""


class Signed:
    def __init__(self, whole: Ordered, key: Path, public: bytes) -> None:
        self.whole, self.key, self.public = whole, key, public
        self.group = Group(whole, signed=True)
        self.client = Client(whole, CLIENT)

    def start_signer(self, *options: str) -> Child:
        return self.whole.start_signer(SIGNER_HOST, self.key, *options)

    def join_all(self) -> None:
        """Lets all members join, and then begins an epoch.

        So the members receive this epoch from its first number.

        A member that joins later receives an epoch only from the first packet that itself carries a
        signature.
        """
        for host in range(1, N_MEMBERS + 1):
            self.group.join(host)
        self.group.advance()


@pytest.fixture
def signed(namespaces: None, logs: Path) -> Iterator[Signed]:
    key = logs / "signer.key"
    run([str(SIGNER), "key", "new", str(key)])
    public = run([str(SIGNER), "key", "public", str(key)]).strip()
    options = ["--variant", "signed", "--signer-port", str(SIGNER_HOST), "--signer-key", public]
    with ordered(logs, SIGNER_HOST, AOM_PK, options) as whole:
        signed = Signed(whole, key, bytes.fromhex(public))
        whole.stack.callback(signed.group.leave)
        yield signed


def counters(signer: Child) -> dict[str, Any]:
    """Ends a signer; returns what it counted."""
    assert signer.stop() == 0
    log = signer.log_text()
    found: dict[str, Any] = json.loads(log[log.index("{") :])["signer"]
    return found


def signed_state(message: Message) -> tuple[bytes, bytes]:
    """The state that a certificate signs, and the signature with r first."""
    head = CERTIFICATE_HEAD.size
    proof, group, epoch, number, signature, link = CERTIFICATE_HEAD.unpack(
        message.certificate[:head]
    )
    assert (proof, epoch, number) == (2, message.epoch, message.sequence)
    later = [message.certificate[at : at + 32] for at in range(head, len(message.certificate), 32)]
    state = link
    for place, digest in enumerate([hashlib.sha256(message.payload).digest(), *later]):
        block = state + digest + struct.pack(">IHI", number + place, group, epoch)
        state = hashlib.sha256(block).digest()
    return state, signature[::-1]


def test_the_published_signatures_verify_and_no_altered_one_does() -> None:
    # NeoBFT's two samples: state and signature as they are sent, the last byte first.
    key = (
        0x9AA20C8C9979C2794014D04F4B01DCD9777D0BF79DA53B02DDA9598949D24FC7,
        0x42DD98759B2BB5F2C1984F8410097484A0D025F45181D42EC3C3D08EE5EA4385,
    )
    r = "f936e0bc13f10186b0996f8345c831b529529df8854f344910c35892018a30f9"
    samples = {
        "501a1ceb657cbdcabeaa794978d13e755d49db359c42260bae8313dd813d0b92": (
            "bbe5f34cda2edf549b9ff97287573451cad50229b8c9ac2eaaf77a08c9ce7cb8"
        ),
        "06733e733c430607085480f8ae2544b6f9358bd8140d0cb134065a7907c1b0f7": (
            "327275240ef10a2c7dece79abde782da8a82c93a9d21909c13651250f6d9ef9f"
        ),
    }
    for state, s in samples.items():
        digest, signature = bytes.fromhex(state), bytes.fromhex(s + r)[::-1]
        assert secp256k1.verify(key, digest, signature)
        for at in (0, 31, 32, 63):
            assert not secp256k1.verify(key, digest, altered(signature, at))
        assert not secp256k1.verify(key, hashlib.sha256(digest).digest(), signature)


@pytest.mark.parametrize(
    "options",
    [FULL, FRESH, STARVED],
    ids=["every packet", "every packet, without a pool", "the last of a burst"],
)
def test_members_agree_on_what_an_unrelated_implementation_verifies(
    signed: Signed, options: tuple[str, ...]
) -> None:
    signer = signed.start_signer(*options)
    signed.join_all()
    texts = [f"number {number}" for number in range(20)]
    signed.client.ask(signed.group, *texts)
    # No further request follows. The signature that the last packet lacks must arrive nevertheless.
    told = [messages(events) for events in signed.group.told(len(texts))]
    for one in told:
        assert brief(one) == list(enumerate(texts, start=1))
    key = secp256k1.point_of(signed.public)
    for message in told[0]:
        state, signature = signed_state(message)
        assert secp256k1.verify(key, state, signature)
        for member in signed.group.members:
            assert member.verify(message.certificate, message.payload)
            assert not member.verify(message.certificate, message.payload + b"!")
    certificate, payload = told[0][0].certificate, told[0][0].payload
    for at in range(1, len(certificate)):
        wrong = altered(certificate, at)
        assert not signed.group.members[1].verify(wrong, payload), f"byte {at}"
    counted = counters(signer)
    assert counted["linked"] == len(texts)
    n_signatures = counted["signed"] + counted["signed late"]
    if options == STARVED:
        assert 0 < n_signatures < len(texts)
    else:
        assert n_signatures == len(texts)


def test_a_wrong_digest_is_a_drop_at_every_member_and_no_gap_of_the_signer(signed: Signed) -> None:
    signer = signed.start_signer(*FULL)
    signed.join_all()
    signed.client.ask(signed.group, "before")
    wrong = altered(request(b"wrong", signed=True), 12)
    signed.client.send_to((signed.group.address, UDP_PORT), wrong)
    signed.client.ask(signed.group, "after")
    for told in signed.group.told(3):
        assert brief(told) == [(1, "before"), (2, "DropNotification"), (3, "after")]
    counted = counters(signer)
    assert (counted["linked"], counted["wrong digest"], counted["gaps"]) == (3, 1, 0)


def test_the_signer_and_the_service_leave_no_core_dump(signed: Signed) -> None:
    signed.start_signer(*FULL)
    for name in ("signer", "service"):
        limits = Path(f"/proc/{signed.whole.processes[name].pid}/limits").read_text()
        (core,) = [line for line in limits.splitlines() if line.startswith("Max core file size")]
        assert core.split()[4:6] == ["0", "0"], name


def test_a_stream_that_ends_is_verified_with_no_further_packet(signed: Signed) -> None:
    signer = signed.start_signer(*STARVED)
    signed.join_all()
    for number in range(1, 4):
        signed.client.ask(signed.group, f"alone {number}")
        for told in signed.group.told(1):
            assert brief(told) == [(number, f"alone {number}")]
    counted = counters(signer)
    assert (counted["signed"], counted["signed late"]) == (0, 3)


def test_a_signer_that_is_killed_while_nothing_is_unsigned_costs_nothing(signed: Signed) -> None:
    signed.join_all()
    for number in range(1, 5):
        signer = signed.start_signer()
        signed.client.ask(signed.group, f"signer {number}")
        for told in signed.group.told(1):
            assert brief(told) == [(number, f"signer {number}")]
        signer.kill()


def test_a_signer_that_is_killed_in_the_middle_costs_what_it_had_not_signed(signed: Signed) -> None:
    signer = signed.start_signer()
    signed.join_all()
    texts = [f"number {number}" for number in range(1, 401)]
    before, meanwhile, after = texts[:150], texts[150:250], texts[250:]
    signed.client.ask(signed.group, *before[:100])
    told = [messages(events) for events in signed.group.told(100)]
    signed.client.ask(signed.group, *before[100:])
    signer.kill()
    signed.client.ask(signed.group, *meanwhile)
    signed.start_signer()
    signed.client.ask(signed.group, *after)
    for member, first in zip(signed.group.members, told, strict=True):
        events: list[Event] = [*first, *next_events(member, 300)]
        assert [number_of(event) for event in events] == list(range(1, 401))
        drops = [event.first for event in events if isinstance(event, DropNotification)]
        # The drops are one range: from the first signer's last number to the next signer's first.
        assert drops[0] <= 151
        assert drops[-1] <= 250
        assert all(b == a + 1 for a, b in pairwise(drops))
        delivered = [event for event in events if isinstance(event, Message)]
        assert len(delivered) + len(drops) == len(events)
        assert all(it.payload.decode() == texts[it.sequence - 1] for it in delivered)
