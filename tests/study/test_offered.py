"""Tests that every row (SFU) gets the same load, which depends only on seed, run and sender."""

import itertools

import pytest

from lab.experiment import ExperimentError, Part, known, parse
from lab.meter import Sending, Steady, Trace
from lab.offered import (
    copies_due,
    copies_missing,
    duration_s,
    sendings_of,
    streams_of,
    viewer_numbers,
    viewers_of,
)
from lab.results.published import table_for, tables
from lab.results.series import load_of
from lab.sites import OnePort, Stream
from tests.study.synthetic import cell_of, part_of, slot


def part(streams: str, more: str = "viewers: 5") -> Part:
    return part_of(f"streams: {streams}\n    {more}")


ALL = "senders: everybody\n    participants: [2, 4]"
SITE = OnePort(12)


def test_the_true_bitrate_is_the_one_that_was_asked_for() -> None:
    """The bitrate is over the time from the first packet to the last, as in the thesis."""
    for mbps, packets, size in itertools.product((4, 0.076), (2, 300), (44, 1400)):
        one = part(f"[{{bitrate_mbps: {mbps}, packets: {packets}, frame_len_bytes: {size}}}]")
        (sending,) = sendings_of(one, SITE, cell_of(6))
        steady = sending.packets
        assert isinstance(steady, Steady)
        assert (steady.n_packets, steady.frame_len_bytes, steady.start_ns) == (packets, size, 0)
        assert steady.n_packets * size * 8 / steady.duration_s == pytest.approx(mbps * 1e6)


def test_packets_a_second_are_intervals_and_the_duration_says_how_many() -> None:
    one = part("[{packets_per_s: 235}]", "viewers: 1\n    duration_s: 2")
    (sending,) = sendings_of(one, SITE, cell_of(2))
    assert sending.packets == Steady(470, pytest.approx(1e9 / 235), 1400)  # type: ignore[arg-type]
    assert sending.n_viewers == 1


def test_each_sender_sends_each_stream_to_all_others() -> None:
    two = part("[{packets_per_s: 5}, {packets_per_s: 9, udp_port: 5006}]", ALL)
    found = [
        (one.number, one.sender.number, one.udp_port, one.viewer_udp_port)
        for _, one in streams_of(two, SITE, cell_of(3, senders=3))
    ]
    assert found == [
        (1, 1, 5004, 6000),
        (2, 1, 5006, 6001),
        (3, 2, 5004, 6000),
        (4, 2, 5006, 6001),
        (5, 3, 5004, 6000),
        (6, 3, 5006, 6001),
    ]
    assert [one.n_viewers for one in sendings_of(two, SITE, cell_of(3, senders=3))] == [2] * 6


@pytest.mark.parametrize(
    ("viewers", "sender", "participants", "found"),
    [
        ("all", 1, 4, [2, 3, 4]),
        ("all", 3, 4, [1, 2, 4]),
        ("half", 1, 5, [2, 4]),
        ("half", 2, 6, [4, 6]),
        ("half", 2, 2, []),
        ("all", 1, 1, []),
    ],
)
def test_who_views_a_stream(viewers: str, sender: int, participants: int, found: list[int]) -> None:
    (of,) = part(f"[{{packets_per_s: 5, viewers: {viewers}}}]").streams
    assert viewer_numbers(of, sender, participants) == found
    people = viewers_of(of, Stream(1, SITE.participant(sender)), SITE, cell_of(participants))
    assert [one.number for one in people] == found


def test_several_senders_begin_within_an_interval_at_moments_of_their_own() -> None:
    one = part("[{packets_per_s: 100}]", ALL)
    starts = [sending.packets.start_ns for sending in sendings_of(one, SITE, cell_of(9, senders=9))]
    assert len(set(starts)) == 9
    assert all(0 <= start < 1e7 for start in starts)


RANDOM = "[{interval_ms: [36, 62], frame_len_bytes: [44, 47]}]"


def packets(sendings: list[Sending]) -> list[tuple[tuple[int, int], ...]]:
    found = []
    for sending in sendings:
        assert isinstance(sending.packets, Trace)
        found.append(sending.packets.packets)
    return found


def test_random_loads_stay_within_their_bounds() -> None:
    one = part(RANDOM, f"{ALL}\n    duration_s: 60")
    for trace in packets(sendings_of(one, SITE, cell_of(4, senders=4))):
        times_ms = [at / 1e6 for at, _ in trace]
        gaps = [after - before for before, after in itertools.pairwise(times_ms)]
        assert 0 <= times_ms[0] < 62
        assert 36 <= min(gaps) < 37
        assert 61 < max(gaps) <= 62.001
        assert {size for _, size in trace} == {44, 45, 46, 47}
        assert 60_000 - 62 <= times_ms[-1] < 60_000
        assert len(trace) == pytest.approx(60_000 / 49, rel=0.03)


def test_the_seed_the_run_and_the_sender_make_the_load_and_nothing_else_does() -> None:
    def offered(seed: int, run: int) -> list[tuple[tuple[int, int], ...]]:
        one = part(RANDOM, f"{ALL}\n    seed: {seed}")
        return packets(sendings_of(one, SITE, cell_of(4, senders=4, run=run)))

    assert offered(1, 1) == offered(1, 1)
    assert len({trace for seed in (1, 2) for run in (1, 2) for trace in offered(seed, run)}) == 16
    # A participant's own packets are the same, however many others there are.
    fewer = packets(sendings_of(part(RANDOM, ALL), SITE, cell_of(2, senders=2)))
    assert fewer == offered(1, 1)[:2]


def test_a_burst_ends_after_its_packets_and_the_longest_stream_says_how_long_it_takes() -> None:
    two = part("[{interval_ms: [10, 10], packets: 3}, {packets_per_s: 4, udp_port: 5006}]")
    burst, steady = sendings_of(two, SITE, cell_of(2))
    assert burst.packets.n_packets == 3
    assert duration_s([burst, steady]) == steady.packets.duration_s == 39 / 4


def test_media_lasts_as_long_as_the_load() -> None:
    one = part("[{media: opus}]", f"{ALL}\n    duration_s: 1")
    traces = packets(sendings_of(one, SITE, cell_of(3, senders=3)))
    assert len(set(traces)) == 3
    assert all(0.9 < trace[-1][0] / 1e9 < 1 for trace in traces)
    assert traces == packets(sendings_of(one, SITE, cell_of(3, senders=3)))


def test_copies_are_due_of_what_was_sent_to_who_views_it() -> None:
    two = part("[{packets_per_s: 5}, {packets_per_s: 9, udp_port: 5006, viewers: half}]", ALL)
    due = copies_due(two, 3, (5, 9, 4, 8, 5, 7))
    assert due == {
        (0, 2): 5,
        (0, 3): 5,
        (1, 2): 9,
        (2, 1): 4,
        (2, 3): 4,
        (4, 1): 5,
        (4, 2): 5,
        (5, 2): 7,
    }


def test_copies_to_strangers_and_those_too_many_make_up_for_none_that_is_missing() -> None:
    due = {(0, 2): 4, (0, 3): 4, (0, 4): 4}
    assert copies_missing(due, [slot(0, 2, [1] * 4), slot(0, 3, [1] * 4), slot(0, 4, [1] * 4)]) == 0
    slots = [slot(0, 1, [1] * 9), slot(0, 2, [1] * 3), slot(0, 3, [1] * 6)]
    assert copies_missing(due, slots) == 1 + 4


def multicast_parts() -> list[Part]:
    parts = parse(known()["multicast"].read_text(), "multicast.yaml").loads
    return [one for one in parts if one.streams[0].interval_ms is not None]


@pytest.mark.parametrize("one", multicast_parts(), ids=lambda one: one.part)
def test_the_multicast_study_offers_what_each_host_is_published_to_have_sent(one: Part) -> None:
    """The published number of packets is that of all streams of a host together.

    The volume of the copies must be the published one, too.
    """
    row = {"multicast_one_stream", "multicast_two_streams", "userspace_port_per_host"} & {*one.rows}
    table = table_for(row.pop(), load_of(one))
    assert table is not None
    site = OnePort(12)
    assert isinstance(one.participants, tuple)
    for size in one.participants:
        published = table.at(size - 1)
        assert published is not None
        found = sendings_of(one, site, cell_of(size, senders=size))
        for sender in range(1, size + 1):
            its_own = [each for each in found if each.stream.sender.number == sender]
            assert sum(each.packets.n_packets for each in its_own) == published.packets
        # For twelve hosts the published volume is a tenth less than the volume of all copies.
        if published.volume_kbit and size < 12:
            kbit = sum(
                each.n_viewers * length * 8 / 1000
                for each in found
                if isinstance(each.packets, Trace)
                for _, length in each.packets.packets
            )
            assert kbit == pytest.approx(published.volume_kbit, rel=0.03)


def test_averages_beside_the_multicast_papers_are_over_copies_as_there() -> None:
    assert {table.is_per_copy for table in tables() if table.source == "multicast README"} == {True}
    assert {table.is_per_copy for table in tables() if table.source == "thesis"} == {False}


def test_packets_that_are_split_go_to_the_streams_in_turn() -> None:
    streams = (
        "[{interval_ms: [36, 62], packets: 7}, {interval_ms: [36, 62], packets: 7, udp_port: 5006}]"
    )
    whole, split = (
        sendings_of(part(streams, f"{ALL}\n    split: {it}"), SITE, cell_of(2, senders=2))
        for it in ("false", "true")
    )
    assert [each.packets.n_packets for each in whole] == [7] * 4
    assert [each.packets.n_packets for each in split] == [4, 3, 4, 3]
    low, high = (each.packets for each in split[:2])
    assert isinstance(low, Trace)
    assert isinstance(high, Trace)
    times = [
        one for pair in itertools.zip_longest(low.packets, high.packets) for one in pair if one
    ]
    assert times == sorted(times)


def test_packets_by_participants_must_be_there_for_each_size() -> None:
    with pytest.raises(ExperimentError, match="expected a number for each number of participants"):
        part("[{interval_ms: [36, 62], packets: {2: 5}}]", ALL)
    with pytest.raises(ExperimentError, match="split: expected streams of the same interval_ms"):
        part("[{packets_per_s: 5}, {packets_per_s: 9, udp_port: 5006}]", f"{ALL}\n    split: true")
