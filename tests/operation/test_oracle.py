"""Tests what the oracle reports as a violation, and what it does not report.

The oracle judges how a conference is served while random commands change it.
"""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from lab.addresses import mac_of
from lab.operation.changes import Busy, Choices, DeleteAddress, MoveAddress, Refresh
from lab.operation.oracle import IN_FLIGHT_NS, SETTLED_NS, Due, Oracle
from lab.operation.state import Card, Conference, Group, Pair, Viewer, differences, parse_show

S = 10**9
PAIR = Pair(presenter=1, viewer=2, udp_port=5004)
OTHER = Pair(presenter=1, viewer=3, udp_port=5004)
LATER = 100 * S


def serving(*pairs: Pair) -> Oracle:
    """Makes an oracle: these pairs of presenter and viewer must be served from second 1 on."""
    oracle = Oracle()
    oracle.mark(S, pairs, Due.MUST)
    return oracle


def wrong(oracle: Oracle) -> list[str]:
    oracle.judge(LATER)
    return [one.what for one in oracle.violations]


def test_a_packet_that_comes_once_to_all_who_must_have_it_is_right() -> None:
    oracle = serving(PAIR, OTHER)
    oracle.sent(1, 7, 2 * S)
    oracle.received(PAIR, 7, 2 * S + 1)
    oracle.received(OTHER, 7, 2 * S + 2)
    assert wrong(oracle) == []
    assert (oracle.n_packets, oracle.n_copies, oracle.n_required) == (1, 2, 2)


@pytest.mark.parametrize(
    ("served", "is_sent", "came", "said"),
    [
        ([PAIR, OTHER], True, [PAIR], "packet 7 of h1 did not come to h3:5004"),
        ([PAIR], True, [PAIR, PAIR], "packet 7 of h1 came to h2:5004 2 times"),
        ([], True, [PAIR], "packet 7 of h1 came to h2:5004, who must not have it"),
        ([PAIR], False, [PAIR], "copies of packet 7 of h1, never sent"),
    ],
    ids=["not there", "twice", "to somebody who was never a viewer", "of what nobody sent"],
)
def test_a_copy_is_wrong(served: list[Pair], is_sent: bool, came: list[Pair], said: str) -> None:
    oracle = serving(*served)
    if is_sent:
        oracle.sent(1, 7, 2 * S)
    for place, pair in enumerate(came, start=1):
        oracle.received(pair, 7, 2 * S + place)
    assert wrong(oracle) == [said]


@pytest.mark.parametrize("comes", [False, True])
def test_while_a_command_runs_a_copy_may_come_or_not(comes: bool) -> None:
    oracle = serving(PAIR)
    oracle.mark(3 * S, [PAIR], Due.MAY)
    oracle.mark(3 * S + 1000, [PAIR], Due.MUST_NOT)
    oracle.sent(1, 7, 3 * S - 10)
    if comes:
        oracle.received(PAIR, 7, 3 * S + 2000)
    assert wrong(oracle) == []


def test_after_a_viewer_was_removed_a_copy_is_wrong() -> None:
    oracle = serving(PAIR)
    oracle.mark(3 * S, [PAIR], Due.MAY)
    oracle.mark(3 * S + 1000, [PAIR], Due.MUST_NOT)
    oracle.sent(1, 7, 3 * S + 1001)
    oracle.received(PAIR, 7, 3 * S + 2000)
    assert wrong(oracle) == ["packet 7 of h1 came to h2:5004, who must not have it"]


def test_a_disturbance_excuses_what_is_missing_and_counts_a_packet_that_nobody_got_once() -> None:
    oracle = serving(PAIR, OTHER)
    disturbance = oracle.disturb(3 * S, "a flood")
    oracle.sent(1, 7, 3 * S + 5)
    oracle.sent(1, 8, 3 * S + 6)
    oracle.received(PAIR, 8, 3 * S + 7)
    disturbance.over_ns = 3 * S + 10
    assert wrong(oracle) == []
    assert (disturbance.n_missing, oracle.n_excused) == (2, 3)


def test_a_disturbance_does_not_excuse_a_copy_to_a_stranger() -> None:
    oracle = serving(PAIR)
    oracle.disturb(3 * S, "a flood")
    oracle.sent(1, 7, 3 * S + 5)
    oracle.received(PAIR, 7, 3 * S + 6)
    oracle.received(OTHER, 7, 3 * S + 6)
    assert wrong(oracle) == ["packet 7 of h1 came to h3:5004, who must not have it"]


def test_a_disturbance_that_is_over_or_at_another_host_excuses_nothing() -> None:
    oracle = serving(PAIR)
    oracle.disturb(3 * S, "a flood").over_ns = 3 * S + 10
    oracle.disturb(3 * S, "a link", hosts=[9])
    oracle.sent(1, 7, 3 * S + 11)
    assert wrong(oracle) == ["packet 7 of h1 did not come to h2:5004"]


def test_a_packet_is_judged_only_when_all_its_copies_have_had_their_time() -> None:
    oracle = serving(PAIR)
    oracle.sent(1, 7, 2 * S)
    oracle.judge(2 * S + SETTLED_NS - 1)
    assert oracle.violations == []
    oracle.received(PAIR, 7, 2 * S + IN_FLIGHT_NS)
    assert wrong(oracle) == []


PORTS = {n: 1 if n < 7 else 2 for n in range(1, 10)}


def card(host: int, *, looked_up: bool = True) -> Card:
    return Card(mac_of(host), looked_up, PORTS[host])


def conference_with(*viewers: Viewer) -> Conference:
    return Conference({1: 100}, {1: Group(4, {one: card(one.host) for one in viewers})})


def test_a_shown_state_must_be_one_of_those_that_may_be() -> None:
    before = conference_with(Viewer(2))
    after = conference_with(Viewer(2), Viewer(3))
    assert differences(after, [before, after]) == []
    assert differences(conference_with(Viewer(3), Viewer(2)), [after]) == []
    assert differences(conference_with(Viewer(3)), [before, after]) != []
    assert differences(Conference({1: 100}), [before, after]) != []
    assert differences(Conference({1: 101}, after.groups), [before, after]) != []
    assert differences(Conference({1: 100, 2: 110}, after.groups), [before, after]) != []
    elsewhere = after.copy()
    elsewhere.groups[1].viewers[Viewer(3)] = card(3, looked_up=False)
    assert differences(elsewhere, [before, after]) != []


def shown(document: dict[str, Any]) -> dict[str, Any]:
    """What `reprise show --json` prints after a file with this document was applied."""
    viewers = [viewer for group in document["groups"] for viewer in group["viewers"]]
    for viewer in viewers:
        viewer.setdefault("looked_up", False)
    return {"addresses": document["sfu"], "groups": document["groups"], "foreign": []}


def test_what_show_says_is_read_back_as_the_state_that_was_applied() -> None:
    conference = conference_with(Viewer(2), Viewer(3, 6000), Viewer(8))
    conference.groups[1].viewers[Viewer(3, 6000)] = card(3, looked_up=False)
    document = shown(conference.document(has_ports=True))
    assert parse_show(document) == conference
    with pytest.raises(ValueError, match=r"foreign: .'a group'"):
        parse_show({**document, "foreign": ["a group"]})


def test_copies_to_a_mac_address_that_was_are_another_service() -> None:
    conference = conference_with(Viewer(2), Viewer(3))
    conference.groups[1].viewers[Viewer(3)] = card(3, looked_up=False)
    macs = {n: mac_of(n) for n in PORTS} | {2: "02:00:00:01:01:02", 3: "02:00:00:01:01:03"}
    refresh = Refresh(macs)
    assert refresh.affected(conference, PORTS) == {Pair(4, 2, 5004)}
    after = refresh.after(conference)
    assert after.services(PORTS) == {Pair(4, 2, 5004): macs[2], Pair(4, 3, 5004): mac_of(3)}


def test_nobody_is_served_by_a_port_without_an_address() -> None:
    conference = Conference({2: 110}, conference_with(Viewer(8)).groups)
    assert conference.services(PORTS) == {}
    move = MoveAddress(1, 101)
    assert move.affected(conference, PORTS) == {Pair(4, 8, 5004)}
    assert DeleteAddress(1).affected(move.after(conference), PORTS) == {Pair(4, 8, 5004)}


def choices_of(presenters: Sequence[int], *udp_ports: int) -> Choices:
    """Returns the values that random commands choose from: nine hosts on two switch ports."""
    return Choices(
        groups=range(1, 5),
        presenters=presenters,
        viewers=[Viewer(n, port) for n in PORTS for port in udp_ports],
        ports=PORTS,
        macs={n: mac_of(n) for n in PORTS},
        addresses={1: (100, 101), 2: (110, 111)},
    )


def test_random_changes_always_lead_to_a_state_that_can_be() -> None:
    choose = random.Random(5)
    choices = choices_of((1, 2, 3, 7, 8), 5004, 6000)
    conference = Conference({1: 100})
    kinds = set()
    for _ in range(2000):
        change = choices.change(conference, choose, Busy(), alone=True)
        assert change is not None
        kinds.add(type(change).__name__)
        after = change.after(conference)
        assert len(after.presenters()) == len(after.groups), "a presenter has one group"
        cards = [card for group in after.groups.values() for card in group.viewers.values()]
        assert {card.port for card in cards} <= set(after.own), "a viewer's port has an address"
        was, is_now = conference.services(PORTS), after.services(PORTS)
        unaffected = was.keys() - change.affected(conference, PORTS)
        assert {pair: was[pair] for pair in unaffected}.items() <= is_now.items()
        change.apply(conference)
        assert conference == after
    assert len(kinds) == 7


def test_changes_that_run_at_once_touch_neither_the_same_group_nor_the_same_presenter() -> None:
    choose = random.Random(6)
    choices = choices_of(range(1, 6), 5004)
    conference = choices.conference(choose)
    n_pairs = 0
    for _ in range(500):
        busy = Busy()
        first = choices.change(conference, choose, busy, alone=True)
        assert first is not None
        busy.add(first, conference)
        second = choices.change(conference, choose, busy, alone=False)
        if second is not None and not (first.runs_alone or second.runs_alone):
            n_pairs += 1
            assert not first.groups(conference) & second.groups(conference)
            one_after_the_other = second.after(first.after(conference))
            assert one_after_the_other == first.after(second.after(conference))
            presenters = [group.presenter for group in one_after_the_other.groups.values()]
            assert len(set(presenters)) == len(presenters)
        conference = first.after(conference)
    assert n_pairs > 100
