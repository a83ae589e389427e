"""Streams on several processors: which points a machine can measure, and that all copies come."""

from pathlib import Path

import pytest

from lab.bench import cells as experiment
from lab.bench import scaling
from lab.bench.forwarders import KERNEL, NATIVE, RELAY, Forwarder
from lab.bench.scaling import Cell, together
from lab.bench.search import QUICK
from lab.csvs import rows_of
from lab.results.benchmarks import ScalingRow


@pytest.mark.parametrize(
    ("n_cpus", "kernel", "native"),
    [(1, [1], []), (2, [1, 2], [1]), (4, [1, 2, 4], [1, 2]), (16, [1, 2, 4, 8, 14], [1, 2, 4, 8])],
)
def test_the_points_are_those_that_the_machine_has_processors_for(
    n_cpus: int, kernel: list[int], native: list[int]
) -> None:
    todo = scaling.cells(rounds=1, n_cpus=n_cpus)
    for forwarder, points in ((KERNEL, kernel), (NATIVE, native)):
        assert [cell.processors for cell in todo if forwarder in cell.forwarders] == points


def test_loads_that_ran_together_are_one_run() -> None:
    def said(sent: int, copies: int, least: int, most: int) -> dict[str, float]:
        return {
            "sent": sent,
            "seconds": 1.0 + sent / 1e6,
            "copies": copies,
            "copies_while_sending": copies - 1,
            "copies_of_viewer_min": least,
            "copies_of_viewer_max": most,
            "refusals": 0,
            "others": 0,
        }

    run = together([said(10, 40, 9, 10), said(10, 0, 0, 0)], fanout=2)
    assert (run.sent, run.copies, run.n_viewers) == (20, 40, 2)
    assert not run.is_lost
    assert (run.copies_of_viewer_min, run.copies_of_viewer_max) == (9, 10)
    assert together([said(10, 20, 10, 10), said(9, 17, 8, 9)], fanout=2).is_lost


@pytest.mark.alone
@pytest.mark.parametrize(
    ("forwarder", "processors"), [(KERNEL, 2), (RELAY, 2), (NATIVE, 1)], ids=str
)
def test_every_stream_reaches_its_viewers(
    forwarder: Forwarder, processors: int, system_root: None, tmp_path: Path
) -> None:
    experiment.prepare()
    if why := forwarder.kind.lacks():
        pytest.skip(f"NOT TESTED, no {forwarder.row}: {why}")
    assert scaling.run(tmp_path, [Cell((forwarder,), processors, 0, QUICK, fanout=4)]) == []
    (row,) = rows_of(ScalingRow, (tmp_path / "scaling.csv").read_text(), "scaling.csv")
    assert (row.row, row.processors, row.fanout) == (forwarder.row, processors, 4)
    assert row.copies_per_s_lossless > 1_000
    probes = (tmp_path / "raw" / "scaling-probes.csv").read_text()
    assert probes.count("\n") > 5


@pytest.mark.alone
def test_workers_behind_one_port_have_a_queue_each(system_root: None, tmp_path: Path) -> None:
    """The loads and workers share two processors here, as the machine may have no more."""
    experiment.prepare()
    with scaling._up(Cell((NATIVE,), 2, 0, QUICK, fanout=2), NATIVE, tmp_path / "x", []) as up:
        link = up.site.links[0]
        shown = up.site.sfu.run(["ethtool", "-l", link.sfu_interface])
        current = shown.partition("Current")[2].split()
        assert [current[current.index(name) + 1] for name in ("RX:", "TX:")] == ["2", "2"]
