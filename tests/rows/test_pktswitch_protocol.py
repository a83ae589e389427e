"""The protocol of pktswitch (lab/peers/pktswitch.md).

The tests use a build that stops at an invalid memory access.
"""

import random
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from lab import peers
from lab.process import run
from lab.rows.pktswitch import Pktswitch, PktswitchBypass, PktswitchSockets
from lab.rows.pktswitch_messages import (
    LAYOUT,
    N_PORTS_MAX,
    N_STREAMS_MAX,
    N_SUBSCRIPTIONS_MAX,
    Message,
    Reason,
    StreamName,
    Type,
)
from lab.rows.pktswitch_participants import CONTROL_PORT, Endpoint
from lab.rows.row import Variant
from lab.sites import SFU_IP, OnePort, Stream
from tests.rows.exchange import came, due, exchange, rtp
from tests.rows.pktswitch_wire import (
    MARK,
    after,
    answer,
    answers,
    is_refused,
    message_frame,
    name_of,
    subscribe,
    token_of,
    unsubscribe,
)

SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-g", "-O1"]
SOCKETS, FRAMES = "udp", "afpacket"
"""The two ways by which messages come in.

pktswitch has further ways to carry packets, but each of these treats messages like one of the two.
"""
EXPIRY_LIMIT_S = 120.0


@pytest.fixture(scope="session")
def sanitized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Builds a pktswitch that ends with a report at an invalid read or write; returns its path."""
    path = tmp_path_factory.mktemp("sanitized") / "pktswitch"
    argv = ["cc", *peers.OPTIONS, *SANITIZED, "-o", str(path), str(peers.SOURCES / "pktswitch.c")]
    run(argv, timeout_s=peers.BUILD_TIMEOUT_S)
    return path


@pytest.fixture(params=[SOCKETS, FRAMES])
def switch(
    request: pytest.FixtureRequest,
    namespaces: None,
    sanitized: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Pktswitch]:
    """Runs the sanitized build for six participants behind one port. Its counts must add up."""
    row = PktswitchSockets if request.param == SOCKETS else PktswitchBypass
    monkeypatch.setattr(peers, "program", lambda _: sanitized)
    variant = Variant(port=request.param, wait="sleep")
    with OnePort(6) as site, row(site, variant, tmp_path) as running:
        yield running
        running.stop()
        adds_up(running.final_statistics())


def adds_up(counted: dict[str, int]) -> None:
    """Checks that each message has one counted outcome, and that the subscriptions add up."""
    names = list(counted)
    outcomes = names[names.index("message_short") : names.index("statistics") + 1]
    assert counted["messages"] == sum(counted[name] for name in outcomes), counted
    ended = counted["unsubscribed"] + counted["expired"]
    assert counted["subscriptions"] == counted["subscribed"] - ended, counted


def endpoint(switch: Pktswitch, number: int, udp_port: int = 6000) -> Endpoint:
    return Endpoint(switch.site.participant(number), udp_port)


def stream_of(switch: Pktswitch) -> Stream:
    return Stream(1, switch.site.participant(1))


def who_gets(switch: Pktswitch, sequence: int, n_due: int) -> list[tuple[str, int]]:
    """Lets participant 1 send a packet; returns the address and port of each copy."""
    payload = rtp(sequence)
    copies = exchange(switch.site, [(stream_of(switch), payload)], n_due)
    assert all(copy.is_sound and copy.datagram.payload == payload for copy in copies)
    return [(copy.datagram.dst_ip, copy.datagram.dst_port) for copy in copies]


def test_who_has_not_shown_that_it_receives_is_challenged_and_not_subscribed(
    switch: Pktswitch,
) -> None:
    name, asking = name_of(stream_of(switch)), endpoint(switch, 2)
    first = subscribe(name, token=0)
    challenge = answer(switch.site, asking, first)
    assert challenge == replace(first, type=Type.CHALLENGE, token=challenge.token)
    assert switch.statistics()["subscriptions"] == 0
    done = answer(switch.site, asking, first.with_token(challenge.token))
    assert done == replace(first, type=Type.SUBSCRIBED, token=challenge.token)
    assert who_gets(switch, 1, 1) == [("10.1.0.2", 6000)]


def test_a_token_is_good_for_one_address_and_port(switch: Pktswitch) -> None:
    name, victim = name_of(stream_of(switch)), endpoint(switch, 2)
    token = token_of(switch.site, victim)
    answer(switch.site, victim, subscribe(name, token))
    for thief in (endpoint(switch, 3), endpoint(switch, 2, 6001)):
        assert answer(switch.site, thief, unsubscribe(name, token)).type == Type.CHALLENGE
        own = token_of(switch.site, thief)
        assert own != token
        there_was_none = answer(switch.site, thief, unsubscribe(name, own))
        assert (there_was_none.type, there_was_none.value) == (Type.UNSUBSCRIBED, 0)
    assert who_gets(switch, 1, 1) == [("10.1.0.2", 6000)]


def test_subscribing_and_unsubscribing_twice_is_as_once(switch: Pktswitch) -> None:
    name, asking = name_of(stream_of(switch)), endpoint(switch, 2)
    token = token_of(switch.site, asking)
    said = [(asking, subscribe(name, token))] * 2
    assert [one.type for one in answers(switch.site, said)] == [Type.SUBSCRIBED] * 2
    assert who_gets(switch, 1, 1) == [("10.1.0.2", 6000)]
    said = [(asking, unsubscribe(name, token))] * 2
    assert [(one.type, one.value) for one in answers(switch.site, said)] == [
        (Type.UNSUBSCRIBED, 1),
        (Type.UNSUBSCRIBED, 0),
    ]
    assert who_gets(switch, 2, 0) == []
    counted = switch.statistics()
    assert (counted["subscribed"], counted["refreshed"]) == (1, 1)
    assert (counted["unsubscribed"], counted["not_subscribed"]) == (1, 1)
    assert (counted["packets"], counted["no_stream"]) == (1, 1)


def test_copies_leave_in_the_order_of_subscription(switch: Pktswitch) -> None:
    name = name_of(stream_of(switch))
    order = [
        endpoint(switch, 4),
        endpoint(switch, 2),
        endpoint(switch, 4, 6002),
        endpoint(switch, 3),
    ]
    tokens = {one: token_of(switch.site, one) for one in order}
    for one in order:
        answer(switch.site, one, subscribe(name, tokens[one]))
    expected = [(str(one.participant.ip), one.udp_port) for one in order]
    assert who_gets(switch, 1, 4) == expected
    answer(switch.site, order[1], unsubscribe(name, tokens[order[1]]))
    answer(switch.site, order[0], subscribe(name, tokens[order[0]]))
    assert who_gets(switch, 2, 3) == [expected[0], *expected[2:]]


def test_a_stream_is_told_by_its_senders_address_and_port_and_the_port_at_the_sfu(
    switch: Pktswitch,
) -> None:
    site = switch.site
    stream, other_port = stream_of(switch), Stream(2, site.participant(1), udp_port=5006)
    other_sender = Stream(3, site.participant(5))
    switch.subscribe(stream, site.participants(2, 1))
    switch.subscribe(other_port, site.participants(3, 1))
    payloads = [rtp(number) for number in range(3)]
    sent = list(zip((stream, other_port, other_sender), payloads, strict=True))
    copies = exchange(site, sent, 2)
    wanted = due(payloads[:1], site.participants(2, 1)) + due(
        payloads[1:2], site.participants(3, 1)
    )
    assert came(copies) == wanted
    assert {copy.datagram.src_port for copy in copies} == {5004, 5006}
    assert switch.statistics()["no_stream"] == 1


def test_messages_without_answer_are_counted_by_reason(switch: Pktswitch) -> None:
    good = subscribe(name_of(stream_of(switch)), 0).encode()
    asking = endpoint(switch, 2)
    unanswerable = Endpoint(switch.site.participant(2), 0)
    silent = [
        (asking, b""),
        (asking, good[: LAYOUT.size - 1]),
        (asking, b"\x80\x60" + good[2:]),
        (asking, replace(MARK, type=Type.SUBSCRIBED).encode()),
        (asking, replace(MARK, type=Type.REFUSED).encode()),
        (unanswerable, good),
    ]
    assert answers(switch.site, silent) == []
    counted = switch.statistics()
    names = ("message_short", "message_foreign", "message_answer", "message_unanswerable")
    assert [counted[name] for name in names] == [2, 1, 2, 1]


def test_what_cannot_be_done_is_refused_with_its_reason(switch: Pktswitch) -> None:
    asking, name = endpoint(switch, 2), name_of(stream_of(switch))
    token = token_of(switch.site, asking)
    good = subscribe(name, token)

    def of(ip: str, sender_port: int = 5004, sfu_port: int = 5004) -> Message:
        return subscribe(StreamName(IPv4Address(ip), sender_port, sfu_port), token)

    refused: list[tuple[bytes | Message, Reason]] = [
        (replace(good, version=2), Reason.VERSION),
        (replace(good, version=0, type=0), Reason.VERSION),
        (replace(good, type=0), Reason.TYPE),
        (replace(good, type=4), Reason.TYPE),
        (good.encode() + b"\0", Reason.LENGTH),
        (good.encode() + bytes(1400), Reason.LENGTH),
        (replace(good, value=0), Reason.LIFETIME),
        (replace(good, value=86401), Reason.LIFETIME),
        (of("0.1.2.3"), Reason.STREAM),
        (of("127.0.0.1"), Reason.STREAM),
        (of("224.0.0.1"), Reason.STREAM),
        (of("255.255.255.255"), Reason.STREAM),
        (of(str(SFU_IP)), Reason.STREAM),
        (of("10.1.0.1", sender_port=0), Reason.STREAM),
        (of("10.1.0.1", sfu_port=1023), Reason.STREAM),
        (of("10.1.0.1", sfu_port=CONTROL_PORT), Reason.STREAM),
    ]
    said = answers(switch.site, [(asking, message) for message, _ in refused])
    assert all(one.version == 1 and one.request == good.request for one in said)
    assert all(is_refused(one, why) for one, (_, why) in zip(said, refused, strict=True))
    assert switch.statistics()["subscriptions"] == 0
    # Nobody can have subscribed to a stream that is refused, so unsubscribing succeeds and does
    # nothing.
    nothing = answer(switch.site, asking, unsubscribe(of("127.0.0.1").stream, token))
    assert (nothing.type, nothing.value) == (Type.UNSUBSCRIBED, 0)


def test_a_full_table_says_which_and_serves_on(switch: Pktswitch) -> None:
    viewers = [endpoint(switch, 2, 6000 + n) for n in range(N_SUBSCRIPTIONS_MAX // N_STREAMS_MAX)]
    streams = [
        StreamName(IPv4Address("10.9.0.0") + number, 5004, 5004) for number in range(N_STREAMS_MAX)
    ]
    filled = 0
    for viewer in viewers:
        number = switch._participants.next_number
        switch._participants.ask(
            [(viewer, Message(Type.SUBSCRIBE, number(), one, 86400)) for one in streams]
        )
        filled += len(streams)
        assert switch.statistics()["subscriptions"] == filled
    first, late = viewers[0], endpoint(switch, 3)
    token, late_token = token_of(switch.site, first), token_of(switch.site, late)
    one_more = StreamName(IPv4Address("10.8.0.1"), 5004, 5004)
    full = answer(switch.site, late, subscribe(streams[0], late_token))
    assert is_refused(full, Reason.SUBSCRIPTIONS_FULL)
    answer(switch.site, first, unsubscribe(streams[7], token))
    assert is_refused(answer(switch.site, first, subscribe(one_more, token)), Reason.STREAMS_FULL)
    assert answer(switch.site, late, subscribe(streams[0], late_token)).type == Type.SUBSCRIBED
    for viewer in viewers[1:]:
        token_here = token_of(switch.site, viewer)
        answer(switch.site, viewer, unsubscribe(streams[7], token_here))
    assert switch.statistics()["streams"] == N_STREAMS_MAX - 1
    assert answer(switch.site, first, subscribe(one_more, token)).type == Type.SUBSCRIBED


def test_seventeen_ports_are_one_too_many_until_one_has_no_streams(switch: Pktswitch) -> None:
    asking = endpoint(switch, 2)
    token = token_of(switch.site, asking)
    names = [
        StreamName(IPv4Address("10.1.0.1"), 5004, 5004 + 2 * number)
        for number in range(N_PORTS_MAX + 1)
    ]
    said = answers(switch.site, [(asking, subscribe(name, token)) for name in names])
    assert [one.type for one in said[:-1]] == [Type.SUBSCRIBED] * N_PORTS_MAX
    assert is_refused(said[-1], Reason.PORT)
    answer(switch.site, asking, unsubscribe(names[3], token))
    assert answer(switch.site, asking, subscribe(names[-1], token)).type == Type.SUBSCRIBED
    assert is_refused(answer(switch.site, asking, subscribe(names[3], token)), Reason.PORT)


def test_a_port_that_something_else_has_is_refused(
    sanitized: Path, namespaces: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "program", lambda _: sanitized)
    variant = Variant(port=SOCKETS, wait="sleep")
    with OnePort(2) as site, PktswitchSockets(site, variant, tmp_path) as running:
        foreign = site.sfu.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        with foreign:
            foreign.bind((str(SFU_IP), 5004))
            asking = endpoint(running, 2)
            token = token_of(site, asking)
            wanted = subscribe(name_of(stream_of(running)), token)
            assert is_refused(answer(site, asking, wanted), Reason.PORT)
        assert answer(site, asking, wanted).type == Type.SUBSCRIBED


def until(switch: Pktswitch, holds: Callable[[dict[str, int]], bool]) -> dict[str, int]:
    """Waits until `holds` is true of the counters; returns them."""
    deadline_s = time.monotonic() + EXPIRY_LIMIT_S
    while not holds(counted := switch.statistics()):
        assert time.monotonic() < deadline_s, counted
    return counted


def test_a_subscription_ends_with_its_lifetime_unless_it_is_refreshed(switch: Pktswitch) -> None:
    name = name_of(stream_of(switch))
    short, kept, whole = (endpoint(switch, number) for number in (2, 3, 4))
    alone = StreamName(IPv4Address("10.1.0.5"), 5004, 5004)
    tokens = {one: token_of(switch.site, one) for one in (short, kept, whole)}
    said = [
        (short, subscribe(name, tokens[short], 1)),
        (kept, subscribe(name, tokens[kept], 1)),
        (whole, subscribe(name, tokens[whole], 600)),
        (short, subscribe(alone, tokens[short], 1)),
        (kept, subscribe(name, tokens[kept], 600)),
    ]
    begun_s = time.monotonic()
    assert [one.type for one in answers(switch.site, said)] == [Type.SUBSCRIBED] * 5
    counted = until(switch, lambda now: now["expired"] == 2)
    assert time.monotonic() - begun_s >= 1.0
    assert (counted["subscriptions"], counted["streams"]) == (2, 1)
    assert who_gets(switch, 1, 2) == [("10.1.0.3", 6000), ("10.1.0.4", 6000)]


def test_random_messages_and_packets_break_nothing(switch: Pktswitch) -> None:
    rng = random.Random(7)
    asking = [endpoint(switch, number) for number in (2, 3, 4)]
    tokens = [token_of(switch.site, one) for one in asking]
    n_sent = 0
    for _ in range(30):
        frames = []
        for _ in range(100):
            who = rng.randrange(len(asking))
            stream = StreamName(
                IPv4Address("10.1.0.0") + rng.randrange(8), rng.randrange(5003, 5007), 5004
            )
            kind = rng.choice([Type.SUBSCRIBE, Type.UNSUBSCRIBE, Type.STATISTICS, Type.SUBSCRIBE])
            data = bytearray(Message(kind, 1, stream, rng.randrange(1, 9), tokens[who]).encode())
            for _ in range(rng.choice([0, 0, 0, 1, 2])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            if rng.random() < 0.1:
                data = data[: rng.randrange(len(data))] + rng.randbytes(rng.randrange(40))
            frames.append(message_frame(switch.site, asking[who], bytes(data)))
        after(switch.site, frames)
        n_sent += len(frames) + 2
    before = switch.statistics()
    assert before["messages"] >= n_sent
    assert before["subscribed"] > 100
    assert before["unsubscribed"] > 50
    adds_up(before)
    for number, one in enumerate(asking):
        name = name_of(stream_of(switch))
        answer(switch.site, one, unsubscribe(name, tokens[number]))
    switch.subscribe(stream_of(switch), switch.site.participants(5, 2))
    assert who_gets(switch, 1, 2) == [("10.1.0.5", 6000), ("10.1.0.6", 6000)]
