"""Ordered groups with real sockets: what all members deliver, what one loses, what each refuses."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from aom import Counters, Event, Message

from tests.e2e.aom_group import (
    Client,
    Group,
    Tap,
    altered,
    brief,
    messages,
    next_events,
    number_of,
    wait_until,
)
from tests.e2e.ordered import MEMBER_UDP_PORT, Ordered, ordered

SIZES = (1, 3, 4, 5, 8, 16, 64)
N_HOSTS = 16
N_ROUNDS = 5
ATTEMPTS = 20
OTHER_IP = "239.1.0.2"
OTHER_UDP_PORT = 61000
CERTIFICATE_HEAD_BYTES = 15
"""The length of a certificate's head: kind of proof, group, epoch, number.

Shards follow the head (crates/aom/core/src/certificate.rs).
"""
LANES = 4
SHARD_BYTES = 1 + 4 * LANES
"""The length of a shard in a certificate: its number, and 4 bytes of tag per lane (member)."""
VARIANTS_MAX = 16
"""How many different copies a member keeps for one shard of one sequence number, if the member
cannot verify these copies (crates/aom/core/src/limits.rs)."""
# The switch's multicast groups for the ordered group that was added first: one makes a copy for
# each shard, the other one a copy for each receiver.
SHARDS, RECEIVERS = 1, 2


def grow(group: Group, size: int, first_udp_port: int) -> None:
    """Adds members up to `size`. Hosts are fewer than members, so a host has several sockets."""
    for member in range(len(group.members), size):
        group.join(1 + member % N_HOSTS, first_udp_port + member // N_HOSTS)


class Told:
    """The events of each member of a group since the last member was added."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.events: list[list[Event]] = [[] for _ in group.members]
        self.n_asked = 0

    def all_deliver(self, client: Client, *texts: str) -> None:
        """Sends requests, and repeats those that a member dropped, as docs/aom.md asks of senders.

        Drops are no failure: hundreds of threads share two processors, so a packet may be late.
        """
        for _ in range(ATTEMPTS):
            client.ask(self.group, *texts)
            self.n_asked += len(texts)
            for member, events in zip(self.group.members, self.events, strict=True):
                events.extend(next_events(member, self.n_asked - len(events)))
            texts = tuple(text for text in texts if not self._is_delivered(text))
            if not texts:
                return
        raise AssertionError(f"{texts} not delivered to all in {ATTEMPTS} attempts")

    def _is_delivered(self, text: str) -> bool:
        return all(text in dict(brief(events)).values() for events in self.events)


def assert_certificates_convince(group: Group, certificate: bytes, message: Message) -> None:
    """Checks that the certificate proves this message, and no altered one, to every member.

    Each member can verify its own tag in the certificate.
    """
    payload = message.payload
    for place, member in enumerate(group.members):
        shard, lane = divmod(place, LANES)
        own_tag = CERTIFICATE_HEAD_BYTES + SHARD_BYTES * shard + 1 + 4 * lane
        assert member.verify(certificate, payload)
        assert not member.verify(certificate, altered(payload, place % len(payload)))
        for at in (1, 10, CERTIFICATE_HEAD_BYTES - 1, own_tag, own_tag + 3):
            assert not member.verify(altered(certificate, at), payload)


def assert_all_agree(told: Told, expected: set[str]) -> None:
    """Checks that members have the same message for each number and can prove it to each other."""
    delivered: dict[int, Message] = {}
    for events in told.events:
        assert [number_of(event) for event in events] == list(range(1, told.n_asked + 1))
        for event in events:
            if isinstance(event, Message):
                # The certificate is equal, too: it has the tags of all members.
                assert delivered.setdefault(event.sequence, event) == event
    assert {message.payload.decode() for message in delivered.values()} == expected
    shards = -(-len(told.group.members) // LANES)
    for message in delivered.values():
        assert len(message.certificate) == CERTIFICATE_HEAD_BYTES + SHARD_BYTES * shards
    first = delivered[min(delivered)]
    assert_certificates_convince(told.group, first.certificate, first)


@pytest.mark.alone
def test_two_groups_of_1_to_64_members_at_once(namespaces: None, logs: Path) -> None:
    with ordered(logs, N_HOSTS + 2) as whole:
        whole.aom("group", "add", "other", "--address", OTHER_IP)
        counter, other = Group(whole), Group(whole, "other", OTHER_IP)
        whole.stack.callback(counter.leave)
        whole.stack.callback(other.leave)
        clients = [Client(whole, host) for host in (N_HOSTS + 1, N_HOSTS + 2)]
        for size in SIZES:
            grow(counter, size, MEMBER_UDP_PORT)
            grow(other, size, OTHER_UDP_PORT)
            of_counter, of_other = Told(counter), Told(other)
            # Both clients send requests to both groups, but to one group twice as many, so that
            # numbers differ.
            for number in range(N_ROUNDS):
                for who, client in enumerate(clients):
                    # A socket's buffer is 208 KiB by default. So members take the copies of two
                    # requests (32 for each of 64 members) before the next requests are sent.
                    of_counter.all_deliver(client, f"{who} {number}")
                    of_other.all_deliver(client, f"{who} {number} a", f"{who} {number} b")
            texts = {f"{who} {number}" for who in range(2) for number in range(N_ROUNDS)}
            assert_all_agree(of_counter, texts)
            assert_all_agree(of_other, {f"{text} {it}" for text in texts for it in "ab"})


class Five:
    """A group of five members (two shards), a client, and a group "other" on the same hosts."""

    def __init__(self, whole: Ordered) -> None:
        self.whole = whole
        whole.aom("group", "add", "other", "--address", OTHER_IP)
        self.group, self.other = Group(whole), Group(whole, "other", OTHER_IP)
        for host in range(1, 6):
            self.group.join(host)
        self.other.join(1, OTHER_UDP_PORT)
        self.client = Client(whole, 6)
        self.n_asked = 0

    def ask(self, *texts: str) -> int:
        """Sends requests; returns the number that the first of them gets."""
        first = self.n_asked + 1
        self.client.ask(self.group, *texts)
        self.n_asked += len(texts)
        return first


@pytest.fixture(scope="module")
def five(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Five]:
    with ordered(tmp_path_factory.mktemp("five"), 6) as whole:
        five = Five(whole)
        whole.stack.callback(five.group.leave)
        whole.stack.callback(five.other.leave)
        yield five


@pytest.fixture
def without_service(five: Five) -> Iterator[Five]:
    """Kills the service while the test controls the switch; then starts the service again."""
    epoch = five.whole.group()["epoch"]
    five.whole.kill("service")
    yield five
    five.whole.start_service()
    assert five.whole.wait_for("active")["epoch"] == epoch


def lose_one(five: Five, multicast_group: int, left: list[tuple[int, int]]) -> int:
    """Sends a request of which the switch makes only the copies `left`; returns its number."""
    n_members = len(five.group.members)
    copies = {SHARDS: [(1, 0), (1, 1)], RECEIVERS: [(1 + it, it) for it in range(n_members)]}
    first = five.ask("before")
    assert [brief(told) for told in five.group.told(1)] == [[(first, "before")]] * n_members
    tap = Tap(five.group, 1)
    five.whole.write_copies(multicast_group, left)
    five.ask("lost")
    _fence(five, tap)
    five.whole.write_copies(multicast_group, copies[multicast_group])
    five.ask("after")
    return first + 1


def _fence(five: Five, tap: Tap) -> None:
    """Waits until a datagram sent later has arrived, so the switch is done with the request."""
    five.client.send(five.group.places[1], b"fence")
    while tap.take(1) != [b"fence"]:
        pass


@pytest.mark.parametrize(
    ("multicast_group", "left"),
    [(RECEIVERS, []), (SHARDS, [(1, 0)]), (SHARDS, [(1, 1)])],
    ids=["all its packets", "the second shard's packet", "the first shard's packet"],
)
def test_a_request_lost_at_the_switch_is_one_drop_at_each_member_before_the_next_message(
    without_service: Five, multicast_group: int, left: list[tuple[int, int]]
) -> None:
    five = without_service
    lost = lose_one(five, multicast_group, left)
    for told in five.group.told(2):
        assert brief(told) == [(lost, "DropNotification"), (lost + 1, "after")]


def test_a_copy_lost_at_the_switch_is_a_drop_at_its_receiver_and_another_shows_the_message(
    without_service: Five,
) -> None:
    five = without_service
    lost = lose_one(five, RECEIVERS, [(1 + member, member) for member in (1, 2, 3, 4)])
    mine, *others = five.group.told(2)
    assert brief(mine) == [(lost, "DropNotification"), (lost + 1, "after")]
    for told in others:
        assert brief(told) == [(lost, "lost"), (lost + 1, "after")]
        shown = messages(told)[0]
        assert five.group.members[0].verify(shown.certificate, shown.payload)


def test_copies_in_any_order_within_the_window_are_no_drops(five: Five) -> None:
    texts = [f"any order {number}" for number in range(16)]
    tap = Tap(five.group)
    with five.whole.losing(1, senders=(6,)):
        first = five.ask(*texts)
        copies = tap.take(2 * len(texts))
    random.Random(1).shuffle(copies)
    assert copies[0][8:12] != first.to_bytes(4, "big")
    # Sent from the member's own host, the shuffled copies arrive before the switch's next copies.
    Client(five.whole, 1).send(five.group.places[0], *copies)
    expected = [*enumerate(texts, start=first), (first + len(texts), "next")]
    five.ask("next")
    for told in five.group.told(len(expected)):
        assert brief(told) == expected


def of_stamp(copy: bytes, *, sequence: int, shard: int = 1, tag: int = 0) -> bytes:
    """A copy that claims another shard than the member's, so the member cannot verify the tags."""
    head = copy[:5] + bytes([shard]) + copy[6:8] + sequence.to_bytes(4, "big")
    return head + copy[12:20] + tag.to_bytes(16, "big") + copy[36:]


def test_what_no_member_is_to_take_is_refused_and_counted_by_its_reason(five: Five) -> None:
    tap, of_other = Tap(five.group), Tap(five.other)
    five.ask("old")
    five.group.told(1)
    old_copies = tap.take(2)
    five.group.advance()
    five.n_asked = 0
    five.ask("new")
    five.client.ask(five.other, "other")
    five.group.told(1)
    own, of_second_shard = sorted(tap.take(2), key=lambda copy: copy[5])
    (others,) = of_other.take(1)
    far = five.n_asked + 900
    refused = {
        "malformed": [b"", b"\2", own[:19], own[:35], b"\1" + own[1:], b"\3" + own[1:]],
        "other_group": [others, altered(own, 7)],
        "other_epoch": [*old_copies, altered(own, 4)],
        "wrong_shard": [of_stamp(own, sequence=2, shard=shard) for shard in (2, 15, 16, 255)],
        "no_number": [of_stamp(own, sequence=0)],
        "wrong_digest": [altered(own, 36), own + b"more", own[:-1], own[:36], altered(own, 38)],
        # An altered tag, number or digest.
        "forged": [altered(own, at) for at in (20, 21, 22, 23, 8, 10, 12, 19)],
        "replayed": [own, of_second_shard] * 5,
        "beyond_window": [of_stamp(own, sequence=it) for it in (1026, 5000, 2**32 - 1)] * 3,
    }
    kept = [of_stamp(own, sequence=far, tag=tag) for tag in range(VARIANTS_MAX)]
    more = range(VARIANTS_MAX, VARIANTS_MAX + 7)
    refused["too_many"] = [of_stamp(own, sequence=far, tag=tag) for tag in more]
    member = five.group.members[0]
    before = member.counters
    datagrams = [datagram for reason in refused.values() for datagram in reason]
    five.client.send(five.group.places[0], *kept, *datagrams)
    counts = {reason: len(datagrams) for reason, datagrams in refused.items()}
    expected = {name: getattr(before, name) + counts.get(name, 0) for name in Counters.__slots__}
    expected["datagrams"] += len(kept) + len(datagrams)
    wait_until(lambda: member.counters, Counters(**expected))
    # The member delivers none of these datagrams, and still delivers the next message.
    number = five.ask("still in order")
    for told in five.group.told(1):
        assert brief(told) == [(number, "still in order")]
