"""pktswitch's messages are encoded as lab/peers/pktswitch.md says."""

import re
from ipaddress import IPv4Address

import pytest

from lab.process import REPOSITORY
from lab.rows.pktswitch_messages import (
    COUNTERS,
    LAYOUT,
    NEXT_STEPS,
    Message,
    MessageError,
    Reason,
    StreamName,
    Type,
    decode,
    decode_counters,
    refusal,
)

SUBSCRIBE = Message(
    Type.SUBSCRIBE,
    request=0x01020304,
    stream=StreamName(IPv4Address("10.1.0.1"), 5004, 5006),
    value=3600,
    token=0x1122334455667788,
)
BYTES = bytes.fromhex("706b 01 01 01020304 1122334455667788 0a010001 138c 138e 00000e10")


def test_a_message_has_the_bytes_of_its_description() -> None:
    assert SUBSCRIBE.encode() == BYTES
    assert decode(BYTES) == SUBSCRIBE
    assert len(BYTES) == LAYOUT.size == 28


def test_what_follows_a_message_is_left_alone() -> None:
    assert decode(BYTES + b"more") == SUBSCRIBE


def test_bytes_that_are_no_message_are_told_what_was_expected() -> None:
    with pytest.raises(MessageError, match="at least 28 bytes, found 27"):
        decode(BYTES[:-1])
    with pytest.raises(MessageError, match="begins with 0x706b, found 0x8060"):
        decode(b"\x80\x60" + BYTES[2:])


def test_a_message_of_a_version_or_type_to_come_can_be_read() -> None:
    later = decode(BYTES[:2] + b"\x02\x7f" + BYTES[4:])
    assert (later.version, later.type, later.request) == (2, 0x7F, SUBSCRIBE.request)


def test_counters_come_in_their_order() -> None:
    head = Message(Type.COUNTED, 7).encode()
    values = b"".join(number.to_bytes(8) for number in range(len(COUNTERS)))
    counted = decode_counters(head + values + (99).to_bytes(8))
    assert list(counted) == list(COUNTERS)
    assert list(counted.values()) == list(range(len(COUNTERS)))


def test_counters_that_lack_are_told() -> None:
    head = Message(Type.COUNTED, 7).encode()
    with pytest.raises(MessageError, match=f"lacks 1 bytes of {len(COUNTERS)} counters"):
        decode_counters(head + bytes(8 * len(COUNTERS) - 1))
    with pytest.raises(MessageError, match="expected COUNTED, found type 0x01"):
        decode_counters(BYTES + bytes(8 * len(COUNTERS)))


def test_every_reason_has_a_next_step() -> None:
    assert set(NEXT_STEPS) == set(Reason)
    for reason in Reason:
        said = refusal(Message(Type.REFUSED, 1, value=reason))
        assert said.endswith(NEXT_STEPS[reason])
    assert "does not know" in refusal(Message(Type.REFUSED, 1, value=200))


def test_the_description_has_every_type_reason_and_counter() -> None:
    text = (REPOSITORY / "lab" / "peers" / "pktswitch.md").read_text()
    for kind in Type:
        assert f"| `{kind:#04x}` | {kind.name} |" in text
    for reason in Reason:
        assert re.search(rf"^\| {reason} \| {reason.name} \|", text, re.MULTILINE), reason
    rows = re.findall(r"^\| (\d+) \| `([a-z_]+)` \|", text, re.MULTILINE)
    assert rows == [(str(at), name) for at, name in enumerate(COUNTERS)]
