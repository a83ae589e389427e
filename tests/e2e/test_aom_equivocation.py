"""What members do when a sequencer sends them different messages with the same number."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from aom import Evidence, Message

from tests.e2e.aom_group import Client, Group, brief, messages, wait_until
from tests.e2e.lying_sequencer import LyingSequencer
from tests.e2e.ordered import ordered

N_MEMBERS = 4
CLIENT = 5


@contextmanager
def four(logs: Path, *options: str) -> Iterator[tuple[Group, Client]]:
    """A group of four members that have all joined."""
    with ordered(logs, CLIENT, options=options) as whole:
        group = Group(whole)
        whole.stack.callback(group.leave)
        group.join_all(range(1, N_MEMBERS + 1))
        group.wait_until_all_receive()
        yield group, Client(whole, CLIENT)


def tell(
    group: Group, client: Client, liar: LyingSequencer, number: int, texts: tuple[str, ...]
) -> None:
    """Lets the sequencer send each member a different text with the same number."""
    for place, text in zip(group.places, texts, strict=True):
        client.send(place, *liar.packets(number, text.encode()))


def test_without_confirms_two_halves_deliver_different_messages_and_evidence_shows_it(
    namespaces: None, logs: Path
) -> None:
    with four(logs) as (group, client):
        liar = LyingSequencer.of(group.whole.state)
        tell(group, client, liar, 1, ("left", "left", "right", "right"))
        told = [messages(events) for events in group.told(1)]
        assert [brief(one) for one in told] == [[(1, "left")]] * 2 + [[(1, "right")]] * 2
        # Members 0 and 3 accept each other's certificates, because the sequencer did send both
        # messages.
        left, right = told[0][0], told[3][0]
        assert group.members[0].verify(right.certificate, right.payload)
        assert group.members[3].verify(left.certificate, left.payload)
        tell(group, client, liar, 1, ("right", "right", "left", "left"))
        for events in group.told(1):
            (evidence,) = events
            assert isinstance(evidence, Evidence)
            assert evidence.sequence == 1
            assert evidence.first != evidence.second


def test_with_confirms_no_two_members_deliver_different_messages(
    namespaces: None, logs: Path
) -> None:
    with four(logs, "--byzantine") as (group, client):
        # All four members are in the epoch of the honest sequencer.
        client.ask(group, "honest")
        for told in group.told(1):
            assert brief(told) == [(1, "honest")]
        liar = LyingSequencer.of(group.whole.state)
        tell(group, client, liar, 2, ("left", "left", "right", "right"))
        tell(group, client, liar, 3, ("left", "left", "left", "right"))
        tell(group, client, liar, 4, ("same", "same", "same", "same"))
        everybody = group.told(3)
        dropped, left = (2, "DropNotification"), (3, "left")
        same = (4, "same")
        for told in everybody[:3]:
            assert brief(told) == [dropped, left, same]
        assert brief(everybody[3]) == [dropped, (3, "DropNotification"), same]
        # The member that dropped this message accepts the text that the others confirm, and no
        # other text.
        shown = everybody[0][1]
        assert isinstance(shown, Message)
        assert group.members[3].verify(shown.certificate, shown.payload)
        assert not group.members[3].verify(shown.certificate, b"right")


def test_confirms_that_no_member_signed_are_refused_and_counted(
    namespaces: None, logs: Path
) -> None:
    with four(logs, "--byzantine") as (group, client):
        liar = LyingSequencer.of(group.whole.state)
        head = bytes([4]) + liar.epoch.to_bytes(4, "big")
        rest = liar.group.to_bytes(2, "big") + (1).to_bytes(4, "big") + bytes(32 + 64)
        before = group.members[0].counters
        client.send(group.places[0], head + bytes([9]) + rest, *[head + bytes([1]) + rest] * 2)
        # The client sends from an address that no member has.
        counts = {"confirms_of_strangers": 3, "confirms_forged": 0}
        wait_until(
            lambda: {it: getattr(group.members[0].counters, it) for it in counts},
            {it: getattr(before, it) + n for it, n in counts.items()},
        )
        client.ask(group, "confirmed")
        for told in group.told(1):
            assert brief(told) == [(1, "confirmed")]
