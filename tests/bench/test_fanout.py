"""How the rates are searched for, and what is measured."""

import math

import pytest

from lab.bench import fanout, matrix
from lab.bench.experiment import median
from lab.bench.fanout import (
    COARSE,
    DOWN,
    FINE,
    Probe,
    best_without_loss,
    peak_of,
    percentile,
    search,
    search_steps,
)
from lab.bench.forwarders import Forwarder
from lab.bench.load import Run
from lab.bench.matrix import Choice
from lab.bench.suite import FILES, measurement_of
from lab.experiment import known, parse

MAKE_BENCH_S = 1560.0


@pytest.mark.parametrize("limit", [0.04, 0.07, 0.33, 0.62, 0.88, 0.97, 1.0, 1.04, 1.17, 1.3])
def test_the_search_comes_near_the_limit_from_below(limit: float) -> None:
    tried: list[float] = []

    def is_lossless(part: float) -> bool:
        tried.append(part)
        return part <= limit

    found = search(is_lossless, tries=20)
    assert found <= limit
    assert found > limit / FINE or limit < DOWN[-1]
    assert len(tried) <= len(DOWN) + 20


def test_a_stolen_moment_fails_a_try_and_not_the_search() -> None:
    steps = search_steps(4)
    parts = [next(steps)]
    parts += [steps.send(is_lossless) for is_lossless in (True, False, False, True)]
    with pytest.raises(StopIteration) as end:
        steps.send(True)
    assert parts == pytest.approx([1.0, COARSE, COARSE / FINE, COARSE / FINE**2, COARSE / FINE])
    assert end.value.value == pytest.approx(COARSE / FINE)


def run_of(sent_copies_per_s: float, came_per_s: float) -> Run:
    return Run(
        n_viewers=1,
        sent=round(sent_copies_per_s),
        seconds=1.0,
        copies=round(came_per_s),
        copies_while_sending=round(came_per_s),
        copies_of_viewer_min=0,
        copies_of_viewer_max=0,
        audio_sent=0,
        audio_copies=0,
        refusals=0,
        others=0,
    )


def test_what_spins_takes_the_time_between_two_copies_of_its_processor() -> None:
    def probe(wait: str, per_s: float) -> Probe:
        run = run_of(per_s, per_s)
        return Probe(Forwarder("pktswitch_bypass", "", "afxdp", wait), per_s, run, cpu_s=3.0)

    for wait, cpu_ns in (("spin", 2_000.0), ("sleep", 6_000.0)):
        probes = [probe(wait, 400_000.0), probe(wait, 500_000.0)]
        assert best_without_loss(probes) == pytest.approx((500_000.0, cpu_ns))


def test_the_peak_is_sought_beyond_what_can_be_carried_and_where_the_load_ends() -> None:
    def carries(most: float, load_max: float = 1e9, overrun: float = 1.0) -> float:
        def offer(copies_per_s: float) -> Run:
            sent = min(copies_per_s, load_max)
            came = min(sent, most) if sent < 1.3 * most else overrun * most
            return run_of(sent, came)

        return peak_of(offer)

    assert carries(700_000.0) == 700_000.0
    assert carries(2_000_000.0) == 2_000_000.0
    assert carries(9e9, load_max=600_000.0) == 600_000.0
    assert carries(700_000.0, overrun=0.8) == pytest.approx(700_000.0, rel=0.05)


def test_a_forwarder_that_waits_otherwise_or_is_slow_is_measured_less() -> None:
    todo = matrix.cells(Choice())
    ours = Forwarder("p4_replication", "native", "afxdp", "spin")
    of = [cell for cell in todo if ours in cell.forwarders]
    assert [(cell.round, cell.fanout) for cell in of] == [
        *((0, n) for n in fanout.FANOUTS if n != 64),
        *((number, 64) for number in range(3)),
    ]
    sleeping = {cell.fanout for cell in todo if cell.forwarders[0].wait == "sleep"}
    assert sleeping == {1, 64}
    assert len({(cell.round, str(cell)) for cell in todo}) == len(todo)


def test_like_takes_turns_with_like() -> None:
    groups = {cell.forwarders for cell in matrix.cells(Choice()) if len(cell.forwarders) > 1}
    for group in groups:
        assert len({forwarder.wait for forwarder in group}) == 1
        assert {"pktswitch_bypass", "p4_replication"} < {forwarder.row for forwarder in group}
    assert {(group[0].port, group[0].wait) for group in groups} == {
        (port, wait) for port in ("afpacket", "afxdp") for wait in ("spin", "sleep")
    }
    only = matrix.cells(Choice(only=("pktswitch_bypass afxdp spin",), fanouts=(64,), rounds=2))
    assert [(cell.round, str(cell)) for cell in only] == [
        (number, "pktswitch_bypass afxdp spin, 64 copies") for number in range(2)
    ]


def test_the_benchmark_takes_less_than_twenty_six_minutes() -> None:
    text = known()["bench"].read_text()
    for is_quick, most_s in ((False, MAKE_BENCH_S), (True, MAKE_BENCH_S / 4)):
        parts = parse(text, "bench.yaml", is_quick=is_quick).benchmarks
        every = [measurement_of(part) for part in parts]
        assert sum(one.planned_s for one in every) < most_s
        assert {one.file for one in every} == {FILES[part.measure] for part in parts}
        assert set(FILES) - {part.measure for part in parts} == {"pisces", "neobft"}


def test_a_percentile_is_the_smallest_value_that_so_many_are_not_above() -> None:
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert percentile([float(n) for n in range(1, 101)], 0.99) == 99.0
    assert percentile([7.0], 0.99) == 7.0
    assert math.isnan(percentile([], 0.5))


def test_what_was_not_measured_is_not_in_the_median() -> None:
    assert median([1.0, math.nan, 2.0, math.nan, 9.0]) == 2.0
    assert math.isnan(median([math.nan]))
