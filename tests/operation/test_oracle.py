"""What the oracle of random operation holds to be wrong, and what not."""

import random

import pytest

from lab.operation.changes import Busy, Choices
from lab.operation.oracle import IN_FLIGHT_NS, SETTLED_NS, Due, Oracle
from lab.operation.state import Conference, Group, Pair, Viewer, differences, parse_show

S = 10**9
PAIR = Pair(presenter=1, viewer=2, udp_port=5004)
OTHER = Pair(presenter=1, viewer=3, udp_port=5004)
LATER = 100 * S


def serving(*pairs: Pair) -> Oracle:
    """An oracle for which these pairs must be served from second 1 on."""
    oracle = Oracle()
    oracle.mark(S, pairs, Due.MUST)
    return oracle


def wrong(oracle: Oracle) -> list[str]:
    """All that is wrong in the end."""
    oracle.judge(LATER)
    return [one.what for one in oracle.violations]


def test_a_packet_that_comes_once_to_all_who_must_have_it_is_right() -> None:
    oracle = serving(PAIR, OTHER)
    oracle.sent(1, 7, 2 * S)
    oracle.received(PAIR, 7, 2 * S + 1)
    oracle.received(OTHER, 7, 2 * S + 2)
    assert wrong(oracle) == []
    assert (oracle.n_packets, oracle.n_copies, oracle.n_required) == (1, 2, 2)


def test_a_copy_that_does_not_come_is_wrong() -> None:
    oracle = serving(PAIR, OTHER)
    oracle.sent(1, 7, 2 * S)
    oracle.received(PAIR, 7, 2 * S + 1)
    assert wrong(oracle) == ["packet 7 of h1 did not come to h3:5004"]


def test_a_copy_that_comes_twice_is_wrong() -> None:
    oracle = serving(PAIR)
    oracle.sent(1, 7, 2 * S)
    oracle.received(PAIR, 7, 2 * S + 1)
    oracle.received(PAIR, 7, 2 * S + 2)
    assert wrong(oracle) == ["packet 7 of h1 came to h2:5004 2 times"]


def test_a_copy_to_somebody_who_was_never_a_viewer_is_wrong() -> None:
    oracle = Oracle()
    oracle.sent(1, 7, 2 * S)
    oracle.received(PAIR, 7, 2 * S + 1)
    assert wrong(oracle) == ["packet 7 of h1 came to h2:5004, who must not have it"]


def test_a_copy_of_a_packet_that_nobody_sent_is_wrong() -> None:
    oracle = serving(PAIR)
    oracle.received(PAIR, 7, 2 * S)
    assert wrong(oracle) == ["copies of packet 7 of h1, never sent"]


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


def conference_with(*viewers: Viewer) -> Conference:
    """One group."""
    return Conference(100, {1: Group(4, list(viewers))})


def test_a_shown_state_must_be_one_of_those_that_may_be() -> None:
    before = conference_with(Viewer(2))
    after = conference_with(Viewer(2), Viewer(3))
    assert differences(after, [before, after]) == []
    assert differences(conference_with(Viewer(3)), [before, after]) != []
    assert differences(Conference(100), [before, after]) != []
    assert differences(Conference(101, after.groups), [before, after]) != []


def test_what_show_says_is_read_back_as_the_state_that_was_applied() -> None:
    conference = conference_with(Viewer(2), Viewer(3, 6000))
    document = conference.document(port=1)
    shown = {"addresses": [document["sfu"]], "groups": document["groups"]}
    assert parse_show(shown) == conference


def test_random_changes_always_lead_to_a_state_that_can_be() -> None:
    choose = random.Random(5)
    choices = Choices(
        groups=range(1, 5),
        presenters=range(1, 6),
        viewers=[Viewer(n, port) for n in range(1, 9) for port in (5004, 6000)],
        addresses=(100, 101),
    )
    conference = Conference(100)
    kinds = set()
    for _ in range(2000):
        change = choices.change(conference, choose, Busy())
        assert change is not None
        kinds.add(type(change).__name__)
        after = change.after(conference)
        assert len(after.presenters()) == len(after.groups), "a presenter has one group"
        for group in after.groups.values():
            assert len(set(group.viewers)) == len(group.viewers), "a viewer is there once"
        unaffected = conference.pairs() - change.affected(conference)
        assert unaffected <= after.pairs()
        change.apply(conference)
        assert conference == after
    assert len(kinds) == 6


def test_changes_that_run_at_once_touch_neither_the_same_group_nor_the_same_presenter() -> None:
    choose = random.Random(6)
    choices = Choices(range(1, 5), range(1, 6), [Viewer(n) for n in range(1, 9)], (100, 101))
    conference = choices.conference(choose)
    n_pairs = 0
    for _ in range(500):
        busy = Busy()
        first = choices.change(conference, choose, busy)
        assert first is not None
        busy.add(first, conference)
        second = choices.change(conference, choose, busy)
        if second is not None and not (first.runs_alone or second.runs_alone):
            n_pairs += 1
            assert not first.groups(conference) & second.groups(conference)
            one_after_the_other = second.after(first.after(conference))
            assert one_after_the_other == first.after(second.after(conference))
            presenters = [group.presenter for group in one_after_the_other.groups.values()]
            assert len(set(presenters)) == len(presenters)
        conference = first.after(conference)
    assert n_pairs > 100
