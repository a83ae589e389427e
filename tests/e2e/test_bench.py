"""A short run of the benchmark: peers compile, rows are complete, no packet vanishes."""

import csv
import json
from pathlib import Path

import pytest

from lab.bench import cells as experiment
from lab.bench import matrix, overload, priority, soak
from lab.bench.forwarders import PRIORITY, Forwarder
from lab.bench.search import QUICK
from lab.bench.turns import Cell
from lab.pages.checks import SPREAD_PCT_MAX

pytestmark = pytest.mark.alone

FORWARDERS = [
    Forwarder("p4_replication", "native", "afxdp", "spin"),
    Forwarder("pktswitch_bypass", "", "afpacket", "sleep"),
    Forwarder("raw", "", "afpacket", "spin"),
]


@pytest.fixture(scope="module", autouse=True)
def _peers(system_root: None) -> None:
    """Needs real root: the load counts copies by a BPF program."""
    experiment.prepare()


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_fan_out_in_small_yields_whole_rows(tmp_path: Path) -> None:
    fanouts = {"raw": 1}
    todo = [Cell(0, (one,), fanouts.get(one.row, 2), QUICK) for one in FORWARDERS]
    assert matrix.run(tmp_path, todo) == []
    rows = rows_of(tmp_path / "fanout.csv")
    assert [row["row"] for row in rows] == [one.row for one in FORWARDERS]
    for row in rows:
        assert float(row["copies_per_s_peak"]) >= float(row["copies_per_s_lossless"]) > 0, row
        assert row["sink"] == "xdp"
        if row["row"] != "raw":
            assert float(row["trial_s"]) == QUICK.trial_s
            assert 0 < float(row["first_copy_p50_us"]) <= float(row["last_copy_p99_us"]), row


def test_overload_in_small_loses_nothing_uncounted(tmp_path: Path) -> None:
    failures = overload.run(
        tmp_path, FORWARDERS[:1], fanouts=[4], offered=[0.2, 3.0], seconds=0.3, pairs=2
    )
    assert failures == []
    below, beyond = rows_of(tmp_path / "overload.csv")
    assert float(below["loss"]) < float(beyond["loss"])
    assert float(beyond["drops"]) > 0
    for row in (below, beyond):
        assert float(row["vanished"]) == 0
        assert float(row["viewers_spread_pct"]) <= SPREAD_PCT_MAX


def test_the_urgent_stream_has_viewers_of_its_own(tmp_path: Path) -> None:
    forwarder = Forwarder(PRIORITY, "native", "afxdp", "spin")
    assert priority.run(tmp_path, [forwarder], [2], sweeps=2) == []
    rows = rows_of(tmp_path / "priority.csv")
    assert all(int(row["audio_sent"]) > 0 for row in rows)
    assert rows


def test_soak_in_small_finds_no_fault_while_viewers_come_and_go(tmp_path: Path) -> None:
    forwarder = Forwarder("p4_recirculation", "native", "afxdp", "sleep")
    faults = soak.run(
        tmp_path, forwarder, n_packets=20_000, rate_pps=5_000.0, staying=3, change_every=10
    )
    assert faults == []
    said = json.loads((tmp_path / "soak.json").read_text())
    assert said["guests"] >= 3
    assert said["copies"] > 3 * 20_000 - 3 * said["drops"]
