import pytest

from lab.study.definitions import BITRATES_MBPS, STUDIES, THESIS_VIEWERS_P4, Sfu
from lab.study.reference import Published, PublishedSummary, load
from lab.study.statistics import change_pct, mean, percentile, population_stddev, ratio

PUBLISHED = load()


def test_all_rows_of_the_thesis_are_there() -> None:
    assert (len(PUBLISHED.summaries), len(PUBLISHED.runs)) == (62, 186)


@pytest.mark.parametrize(
    "row", PUBLISHED.summaries, ids=lambda row: f"{row.sfu}-{row.bitrate_mbps}-{row.viewers}"
)
def test_our_statistics_of_the_published_runs_are_the_published_summaries(
    row: PublishedSummary,
) -> None:
    runs = [PUBLISHED.run(row.sfu, row.bitrate_mbps, row.viewers, number) for number in (1, 2, 3)]
    found = [run for run in runs if run is not None]
    averages = [run.avg_delay_s for run in found]
    assert len(found) == 3
    assert mean(averages) == pytest.approx(row.avg_delay_s, abs=5e-6)
    assert population_stddev(averages) == pytest.approx(row.stddev_s, abs=5e-6)
    assert min(run.min_delay_s for run in found) == pytest.approx(row.min_delay_s, abs=5e-6)
    assert max(run.max_delay_s for run in found) == pytest.approx(row.max_delay_s, abs=5e-6)
    assert mean([run.packets_lost for run in found]) == pytest.approx(
        row.avg_packets_lost, abs=0.006
    )


def test_the_whole_study_has_every_row_of_the_thesis() -> None:
    planned = {
        (run.sfu, run.bitrate_mbps, run.viewers, run.run) for run in STUDIES["thesis"].runs()
    }
    published = {(run.sfu, run.bitrate_mbps, run.viewers, run.run) for run in PUBLISHED.runs}
    assert published <= planned
    assert {one for one in planned if one[0] is not Sfu.P4_REPLICATION} == published


def test_a_burst_lasts_as_long_as_the_thesis_has_it() -> None:
    lasting = {run.bitrate_mbps: run.burst_s for run in STUDIES["thesis"].runs()}
    assert lasting == pytest.approx({4.0: 0.84, 2.5: 1.344, 0.15: 22.4, 0.076: 44.2105}, rel=1e-5)
    for run in STUDIES["thesis"].runs():
        assert run.burst.duration_s == pytest.approx(run.burst_s)
        assert run.burst.n_packets == 300


def test_the_replicating_sfu_is_set_beside_the_p4_one() -> None:
    both = [PUBLISHED.summary(sfu, 4.0, 11) for sfu in (Sfu.P4_RECIRCULATION, Sfu.P4_REPLICATION)]
    assert both[0] is both[1]
    assert both[0] is not None
    assert both[0].avg_delay_s == 0.854824


def test_what_is_not_published_is_none() -> None:
    assert PUBLISHED.summary(Sfu.USERSPACE, 4.0, 2) is None
    assert Published((), ()).run(Sfu.USERSPACE, 4.0, 1, 1) is None
    assert {bitrate: THESIS_VIEWERS_P4[bitrate] for bitrate in BITRATES_MBPS} == {
        bitrate: max(row.viewers for row in PUBLISHED.series(Sfu.P4_RECIRCULATION, bitrate))
        for bitrate in BITRATES_MBPS
    }


def test_statistics_of_nothing_are_none() -> None:
    assert (mean([]), population_stddev([]), percentile([], 99)) == (None, None, None)
    assert (change_pct(1, None), change_pct(1, 0), ratio(1, 0), ratio(None, 1)) == (None,) * 4


def test_nearest_rank_percentiles() -> None:
    values = [float(n) for n in range(1, 101)]
    assert [percentile(values, p) for p in (0, 1, 50, 99, 100)] == [1, 1, 50, 99, 100]
    assert percentile([3.0], 99) == 3.0
