"""Every column of runs.csv, viewers.csv and summary.csv, from runs whose values are known."""

import csv
import io
import math
from collections.abc import Callable
from dataclasses import asdict, replace

import numpy as np
import pytest

from lab.csvs import csv_text
from lab.experiment import Part
from lab.meter import Slot
from lab.results import runs as measures
from lab.results.folder import Run
from lab.results.runs import (
    Delays,
    RunRow,
    SummaryRow,
    ViewerRow,
    _summary,
    bootstrap_mean,
    cell,
    jain,
    n_outliers,
    run_row,
    viewer_rows,
)
from lab.results.statistics import percentile
from tests.study.synthetic import (
    FACTS,
    FRAME_BYTES,
    cell_of,
    changed,
    part_of,
    run_of,
    sample,
    slot,
)

STEADY = part_of("viewers: [1, 2]\n    streams: [{bitrate_mbps: 4, packets: 4}]")
US = 1_000


def hand_made() -> Run:
    """Makes a run of four packets to participants 2 and 3; the fourth packet has no copies.

    Participant 2 gets one copy twice and another copy out of order. Participant 3 misses one copy.
    Participant 1, who should get no copy, gets one. The first copies of the packets come after 10,
    20 and 30 us, their last copies after 50, 40 and 30 us.
    """
    whole = run_of(STEADY, cell_of(3), n_packets=4)
    samples = (
        sample(0, 0, [10 * US, 50 * US]),
        sample(0, 1, [20 * US, 40 * US]),
        sample(0, 2, [30 * US]),
        sample(0, 3, []),
    )
    slots = (
        replace(slot(0, 1, [60 * US]), duplicates=0, jitter_ns=99),
        Slot(0, 2, 4, 1, 1, 3, 60 * US, 10 * US, 30 * US, 7 * US),
        Slot(0, 3, 2, 0, 0, 2, 90 * US, 40 * US, 50 * US, 9 * US),
    )
    totals = replace(whole.seen.totals, copies_due=8, copies=6, others=5)
    return changed(whole, samples=samples, slots=slots, totals=totals)


def test_every_column_of_runs_csv() -> None:
    run = hand_made()
    row = run_row(STEADY, run, viewer_rows(STEADY, run), None)
    last = [50e-6, 40e-6, 30e-6]
    expected = RunRow(
        row="userspace",
        engine="",
        port="",
        bitrate_mbps=4,
        packet_size_bytes=FRAME_BYTES,
        viewers=2,
        run=1,
        duration_s=0.03,
        min_delay_s=30e-6,
        max_delay_s=50e-6,
        avg_delay_s=40e-6,
        stddev_delay_s=math.sqrt(200e-12 / 3),
        packets_in=4,
        # 3 and 2 copies that were due, a duplicate, and one to a participant who should get none.
        packets_out=7,
        packets_lost_in=1,
        packets_lost_out=5,
        volume_in_kbit=4 * 1400 * 8 / 1000,
        volume_out_kbit=5 * 1400 * 8 / 1000,
        avg_delay_change_vs_previous_run_pct=None,
        true_bitrate_kbps=4 * 1400 * 8 / 1000 / 0.03,
        repeats=1,
        copies_missing=3,
        min_first_copy_delay_s=10e-6,
        avg_first_copy_delay_s=20e-6,
        p99_delay_s=max(last),
        sfu_cpu_s=0.5,
        part="a",
        topology="one_port",
        wait="",
        senders=1,
        streams=1,
        sample_every=1,
        first_copy_p50_s=20e-6,
        first_copy_p95_s=30e-6,
        first_copy_p99_s=30e-6,
        first_copy_p999_s=30e-6,
        last_copy_p50_s=40e-6,
        last_copy_p95_s=50e-6,
        last_copy_p999_s=50e-6,
        duplicates=1,
        misordered=1,
        strangers=1,
        viewers_spread_pct=125.0,
        fairness=(3 / 4 + 2 / 4) ** 2 / (2 * (9 / 16 + 4 / 16)),
        jitter_avg_s=8e-6,
        jitter_max_s=9e-6,
        sfu_cpu_us_per_packet=0.5e6 / 4,
        kernel_cpu_us_per_packet=0.24e6 / 4,
        empty_loop_p999_us=2.5,
        empty_loop_max_us=31,
        warm_up_avg_delay_s=40e-6,
        outliers=0,
        late_max_s=5e-6,
        is_broken=False,
        avg_copy_delay_s=30e-6,
    )
    assert asdict(row) == pytest.approx(asdict(expected))


def test_every_column_of_viewers_csv() -> None:
    rows = viewer_rows(STEADY, hand_made())
    common = {"row": "userspace", "engine": "", "port": "", "part": "a", "topology": "one_port"}
    common |= {"wait": ""}
    expected = [
        ViewerRow(
            **common,
            viewers=2,
            run=1,
            participant=2,
            copies_due=4,
            copies=3,
            duplicates=1,
            misordered=1,
            avg_delay_s=20e-6,
            min_delay_s=10e-6,
            max_delay_s=30e-6,
            jitter_s=7e-6,
        ),
        ViewerRow(
            **common,
            viewers=2,
            run=1,
            participant=3,
            copies_due=4,
            copies=2,
            duplicates=0,
            misordered=0,
            avg_delay_s=45e-6,
            min_delay_s=40e-6,
            max_delay_s=50e-6,
            jitter_s=9e-6,
        ),
    ]
    for row, wanted in zip(rows, expected, strict=True):
        assert asdict(row) == pytest.approx(asdict(wanted))


def runs_at(part: Part, participants: int, delays_us: tuple[int, ...]) -> list[Run]:
    return [
        run_of(part, cell_of(participants, run=number), lambda *_, us=us: us * US)
        for number, us in enumerate(delays_us, 1)
    ]


def summary_of(runs: list[Run], before: SummaryRow | None = None) -> SummaryRow:
    rows: list[RunRow] = []
    for run in runs:
        of_viewers = viewer_rows(STEADY, run)
        rows.append(run_row(STEADY, run, of_viewers, rows[-1] if rows else None))
    return _summary(rows, runs, before)


def test_every_column_of_summary_csv() -> None:
    before = summary_of(runs_at(STEADY, 2, (40,)))
    runs = runs_at(STEADY, 3, (50, 60, 70))
    # In one run the last viewer lacks a copy, and another participant gets one.
    short = replace(runs[1].seen.slots[1], copies=11, timed=11)
    runs[1] = changed(runs[1], slots=(runs[1].seen.slots[0], short, slot(0, 1, [9 * US])))
    runs[1] = replace(runs[1], facts=replace(FACTS, is_broken=True))
    found = summary_of(runs, before)
    expected = SummaryRow(
        row="userspace",
        engine="",
        port="",
        bitrate_mbps=4,
        viewers=2,
        min_delay_s=50e-6,
        max_delay_s=70e-6,
        avg_delay_s=60e-6,
        avg_delay_change_vs_previous_viewers_pct=50.0,
        stddev_of_avg_delay_between_runs_s=math.sqrt(200e-12 / 3),
        runs=3,
        avg_packets_lost_in=0,
        avg_packets_lost_out=0,
        avg_copies_missing=1 / 3,
        part="a",
        topology="one_port",
        wait="",
        # All delays of a run are equal, but the bootstrap draws runs, too: in 1 of 27 draws, all
        # three runs are the one with 50 us.
        avg_delay_low_s=50e-6,
        avg_delay_high_s=70e-6,
        first_copy_avg_s=60e-6,
        p50_delay_s=60e-6,
        p95_delay_s=70e-6,
        p99_delay_s=70e-6,
        p999_delay_s=70e-6,
        jitter_avg_s=20e-6,
        duplicates=0,
        misordered=0,
        strangers=1,
        loss_pct=100 / 72,
        sfu_cpu_us_per_packet=0.5e6 / 12,
        kernel_cpu_us_per_packet=0.24e6 / 12,
        is_broken=True,
        avg_copy_delay_s=60e-6,
    )
    assert asdict(found) == pytest.approx(asdict(expected))


def test_a_run_without_any_copy_has_no_delays_and_loses_all() -> None:
    whole = run_of(STEADY, cell_of(3))
    nothing = changed(whole, slots=(), samples=tuple(sample(0, idx, []) for idx in range(12)))
    row = run_row(STEADY, nothing, viewer_rows(STEADY, nothing), None)
    assert (row.copies_missing, row.packets_lost_in, row.packets_out) == (24, 12, 0)
    assert (row.avg_delay_s, row.p99_delay_s, row.fairness, row.jitter_avg_s) == (None,) * 4
    summary = summary_of([nothing])
    assert (summary.loss_pct, summary.avg_delay_s, summary.avg_delay_low_s) == (100, None, None)
    (_, cells) = csv.reader(io.StringIO(csv_text(SummaryRow, [summary], cell)))
    assert dict(zip(SummaryRow.__slots__, cells, strict=True))["avg_delay_s"] == ""


def test_a_change_is_against_the_run_before_in_the_same_series() -> None:
    first, second = runs_at(STEADY, 3, (50, 75))
    rows = viewer_rows(STEADY, first)
    before = run_row(STEADY, first, rows, None)
    after = run_row(STEADY, second, viewer_rows(STEADY, second), before)
    assert after.avg_delay_change_vs_previous_run_pct == pytest.approx(50)
    other = replace(before, engine="native")
    after = run_row(STEADY, second, viewer_rows(STEADY, second), other)
    assert after.avg_delay_change_vs_previous_run_pct is None


def test_columns_begin_as_ever_with_row_engine_and_port_in_front() -> None:
    made = run_row(STEADY, hand_made(), viewer_rows(STEADY, hand_made()), None)
    header, row = csv.reader(io.StringIO(csv_text(RunRow, [made], cell)))
    assert header[:6] == ["row", "engine", "port", "bitrate_mbps", "packet_size_bytes", "viewers"]
    delays = ["min_delay_s", "max_delay_s", "avg_delay_s", "stddev_delay_s"]
    assert header[7:12] == ["duration_s", *delays]
    cells = dict(zip(header, row, strict=True))
    assert cells["min_delay_s"] == "0.000030000"
    assert cells["true_bitrate_kbps"] == "1493.333"
    assert cells["avg_delay_change_vs_previous_run_pct"] == ""
    assert cells["is_broken"] == "false"


def test_delays_of_a_conference_are_of_all_its_streams() -> None:
    all_see = part_of(
        "senders: everybody\n    participants: 3\n    streams: [{packets_per_s: 100},"
        " {packets_per_s: 50, udp_port: 5006, viewers: half}]"
    )
    run = run_of(all_see, cell_of(3, senders=3), n_packets=5)
    rows = viewer_rows(all_see, run)
    # Each participant views the first streams of both others. Only participant 2 views second
    # streams: those of participants 1 and 3.
    assert [(one.participant, one.copies_due) for one in rows] == [(1, 10), (2, 20), (3, 10)]
    row = run_row(all_see, run, rows, None)
    assert (row.senders, row.streams, row.packets_in, row.packets_out) == (3, 6, 30, 40)
    assert (row.copies_missing, row.fairness, row.strangers) == (0, 1, 0)
    # Nobody views participant 2's second stream, so none of its packets counts as lost.
    assert row.packets_lost_in == 0


def test_percentiles_are_nearest_rank() -> None:
    delays = [5.0, 1.0, 4.0, 2.0, 3.0]
    found = [percentile(delays, percent) for percent in (1, 20, 21, 50, 99, 100)]
    assert found == [1, 1, 2, 3, 5, 5]
    thousand = np.arange(1.0, 1001.0)
    assert [percentile(thousand, one) for one in (50, 95, 99, 99.9)] == [500, 950, 990, 999]
    assert percentile([], 50) is None


def test_jain_is_one_for_equals_and_one_over_n_for_one_who_has_all() -> None:
    assert jain([0.7] * 5) == pytest.approx(1)
    assert jain([1, 0, 0, 0]) == pytest.approx(0.25)
    assert jain([1, 0.5]) == pytest.approx(0.9)
    assert jain([0, 0]) is None


def test_outliers_are_far_above_the_third_quartile() -> None:
    # The quartiles are 25 and 75, so values above 75 + 3 * 50 are outliers.
    spread = np.arange(0.0, 101.0)
    assert n_outliers(spread) == 0
    assert n_outliers(np.append(spread, [224.0, 400.0, 1000.0])) == 2
    assert n_outliers(np.array([])) == 0


def test_the_warm_up_is_the_mean_of_the_first_ten() -> None:
    run = run_of(STEADY, cell_of(2), lambda _, packet, __: (100 if packet < 10 else 10) * US)
    row = run_row(STEADY, run, viewer_rows(STEADY, run), None)
    assert row.warm_up_avg_delay_s == pytest.approx(100e-6)
    assert row.avg_delay_s == pytest.approx((10 * 100e-6 + 2 * 10e-6) / 12)


def test_the_interval_covers_the_mean_of_a_known_distribution_95_times_in_a_hundred() -> None:
    # With one run, the interval covers the mean this often. With several equal runs the interval is
    # wider, see below.
    share = coverage(lambda draw: [draw.exponential(1.0, 300)], n_tries=400, drawn_by=20261123)
    assert 0.92 <= share <= 0.97


def coverage(
    runs_of: Callable[[np.random.Generator], list[Delays]], n_tries: int = 150, drawn_by: int = 7
) -> float:
    """The share of intervals that cover 1, the mean of the distribution."""
    draw = np.random.default_rng(drawn_by)
    n_covered = 0
    for seed in range(n_tries):
        low, high = bootstrap_mean(runs_of(draw), seed)
        assert low is not None
        assert high is not None
        n_covered += low <= 1.0 <= high
    return n_covered / n_tries


def test_the_interval_bears_that_what_delays_one_packet_delays_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def queued(draw: np.random.Generator) -> list[Delays]:
        values = draw.exponential(1.0, 300)
        for idx in np.nonzero(draw.random(300) < 1 / 2)[0]:
            values[int(idx)] = values[max(0, int(idx) - 1)]
        return [values]

    of_blocks = coverage(queued)
    monkeypatch.setattr(measures, "BOOTSTRAP_BLOCK", 1)
    of_packets = coverage(queued)
    assert of_packets < 0.8
    assert of_blocks > 0.87


def test_the_interval_bears_that_runs_differ_and_is_no_narrower_where_they_do_not() -> None:
    def alike(draw: np.random.Generator) -> list[Delays]:
        return [draw.exponential(1.0, 100) for _ in range(5)]

    def different(draw: np.random.Generator) -> list[Delays]:
        return [draw.exponential(draw.uniform(0.5, 1.5), 100) for _ in range(5)]

    assert coverage(alike) > 0.95
    assert coverage(different) > 0.85


def test_intervals_are_the_same_each_time() -> None:
    runs = [np.arange(50.0), np.arange(30.0)]
    assert bootstrap_mean(runs) == bootstrap_mean(runs)
    assert bootstrap_mean([np.array([])]) == (None, None)
    assert bootstrap_mean([np.array([3.0])]) == (3.0, 3.0)
