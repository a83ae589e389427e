"""Tests the table, figures and promises about how many musicians a row serves.

A row is an SFU, a promise a claim that the results must fulfil. The delays are chosen by the tests.
"""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from lab.experiment import Cell, Experiment, ExperimentError, parse
from lab.figures.musicians import musicians_figures, musicians_promises, musicians_tables
from lab.results.folder import Run
from tests.study.synthetic import US, changed, results_from, run_of, text_of

N_PACKETS = 1_000
LOAD = (
    "part: all, rows: [{row}], variants: [{variant}], senders: everybody, "
    "participants: [2, 4, 8, 16], runs: 2, limit_ms: 5, "
    "limit_percentile: {percentile}, streams: [{{packets_per_s: 375}}]"
)


def experiment(row: str, variant: str, percentile: float = 99.9) -> Experiment:
    text = text_of(LOAD.format(row=row, variant=variant, percentile=percentile))
    return parse(text, "own.yaml")


def runs(of: Experiment, late_from: int, share_late: float) -> Iterator[Run]:
    """Makes runs. With `late_from` participants or more, a share of the packets takes 6 ms."""
    part = of.loads[0]
    for place in part.places():
        for cell in part.cells(place, {}):

            def delay(cell: Cell, packet: int, viewer: int) -> int:
                is_late = cell.participants >= late_from and packet < share_late * N_PACKETS
                return 6_000 * US if is_late else (viewer + 1) * 10 * US

            yield run_of(part, cell, delay, n_packets=N_PACKETS)


def musicians(late_from: int, share_late: float) -> list[str]:
    of = experiment("p4_conference", "native afpacket sleep")
    [table] = musicians_tables(results_from(of, runs(of, late_from, share_late)))
    assert table.key == "musicians-5ms"
    return [*table.rows[0]]


def test_the_most_musicians_are_those_before_more_than_one_packet_in_1000_is_late() -> None:
    load, row, most, p50, p99, p999, _, after, after_p999, lost = musicians(16, 0.002)
    assert (load, row) == ("all", "P4, conference service (native afpacket sleep)")
    # The last of 7 listeners gets a packet after 70 us.
    assert (most, p50, p99, p999) == ("8", "0.070", "0.070", "0.070")
    assert (after, after_p999, lost) == ("16", "6.000", "0.00")


def test_one_packet_in_1000_may_be_late() -> None:
    assert musicians(2, 0.001)[2] == "16 or more"


def test_a_row_that_serves_nobody_has_fewer_than_the_fewest() -> None:
    assert musicians(2, 0.002)[2:6] == ["fewer than 2", "-", "-", "-"]


def test_a_lost_copy_ends_it() -> None:
    of = experiment("p4_conference", "native afpacket sleep")
    found = []
    for run in runs(of, 99, 0):
        first, *others = run.seen.slots
        is_hit = run.cell.participants == 4
        slots = (replace(first, copies=first.copies - 1), *others) if is_hit else run.seen.slots
        found.append(changed(run, slots=slots))
    [table] = musicians_tables(results_from(of, found))
    assert table.rows[0][2] == "2"
    assert float(table.rows[0][-1]) > 0


def test_loads_whose_bound_is_on_p99_have_no_such_table() -> None:
    of = experiment("p4_conference", "native afpacket sleep", 99)
    results = results_from(of, runs(of, 99, 0))
    found = (musicians_tables(results), musicians_figures(results), musicians_promises(results))
    assert found == ([], [], [])


def test_figures_have_the_median_and_p999_with_the_bound() -> None:
    of = experiment("p4_conference", "native afpacket sleep")
    p50, p999 = musicians_figures(results_from(of, runs(of, 16, 0.002)))
    assert (p50.key, p999.key) == ("delay-p50-all", "delay-p99.9-all")
    assert [*p50.lines[0].xs] == [1, 3, 7, 15]
    assert p50.lines[0].ys == pytest.approx((0.01, 0.03, 0.07, 0.15))
    assert p999.lines[0].ys == pytest.approx((0.01, 0.03, 0.07, 6.0))


@pytest.mark.parametrize(("late_from", "holds"), [(8, False), (16, True)])
def test_our_rows_must_carry_eight(late_from: int, holds: bool) -> None:
    of = experiment("p4_conference", "native afpacket sleep")
    [promise] = musicians_promises(results_from(of, runs(of, late_from, 0.002)))
    assert promise.holds is holds
    assert promise.is_of_speed


@pytest.mark.parametrize(("sfu_cpu_s", "holds"), [(0.01, True), (0.2, False)])
def test_what_the_kernel_forwards_must_cost_the_process_little(
    sfu_cpu_s: float, holds: bool
) -> None:
    """At the largest size there are 16,000 packets."""
    of = experiment("p4_conference", "kernel xdp shared")
    found = [replace(run, facts=replace(run.facts, sfu_cpu_s=sfu_cpu_s)) for run in runs(of, 99, 0)]
    _, punts = musicians_promises(results_from(of, found))
    assert "the kernel engine" in punts.name
    assert punts.holds is holds, punts.found


def test_a_limit_is_on_p99_or_on_p999() -> None:
    with pytest.raises(ExperimentError, match=r"limit_percentile: expected 99 or 99\.9, found 95"):
        experiment("p4_conference", "native afpacket sleep", 95)
