"""Tests that both switches forward the load, and that measurements give rows of results."""

import contextlib
import re
import subprocess
import sys
import time
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from lab import peers
from lab.bench.search import QUICK
from lab.csvs import rows_of
from lab.frames import checksums_are_right, parse_udp
from lab.netns import NAME_PREFIX, NAMESPACES
from lab.pisces import measure, traffic
from lab.pisces.measure import Cell, cells, run
from lab.pisces.network import PROGRAMS, published
from lab.pisces.offer import Traffic, offer
from lab.pisces.switches import CONTESTANTS, OFF, ON, OPTIMISED, Contestant, Setting, running
from lab.results.benchmarks import PiscesRow, mbit_per_s
from lab.results.statistics import merged_sets
from lab.rows.open_vswitch import Daemons
from lab.sites import PortPerHost
from tests.pisces.synthetic import row
from tests.study.processes import children

OVS = Contestant("ovs", "", OFF)
NATIVE = Contestant("reprise", OPTIMISED, OFF)
COUNTED = re.compile(r"^\s*([a-z ]+): (\d+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def load(open_vswitch: None, system_root: None) -> None:
    peers.build()


def test_every_point_of_the_paper_is_measured() -> None:
    whole = {(cell.port, cell.program, cell.frame_bytes) for cell in cells()}
    assert {
        ("afxdp", program, size) for program in PROGRAMS for size in (64, 128, 192, 256)
    } < whole
    assert {port for port, *_ in whole} == {"afxdp", "afpacket"}
    assert {cell.program for cell in cells(is_quick=True)} == set(PROGRAMS)
    # The variants naive and optimised, each with and without flow caches.
    assert len({(one.variant, one.flow_caches) for one in CONTESTANTS}) == len(CONTESTANTS)


@pytest.mark.parametrize("program", PROGRAMS)
def test_flows_differ_and_hit_what_they_should(program: str) -> None:
    network = published()
    senders = {sender.mac for sender in network.senders}
    stations = {station.mac for station in network.stations}
    routes = {route.prefix for route in network.routes}
    frames = traffic.frames(program, 2 * traffic.N_RECEIVERS, 128)
    assert len(set(frames)) == len(frames)
    for frame in frames:
        datagram = parse_udp(frame)
        assert len(frame) == 128
        assert datagram is not None
        assert checksums_are_right(frame)
        assert IPv4Network(datagram.dst_ip) in routes
        if program == "l2":
            assert {datagram.eth_src, datagram.eth_dst} <= stations
        else:
            assert datagram.eth_src in senders


@pytest.mark.alone
@pytest.mark.parametrize("port", ["afxdp", "afpacket"])
@pytest.mark.parametrize("contestant", [OVS, NATIVE], ids=str)
def test_every_flow_comes_through(
    load: None, contestant: Contestant, port: str, tmp_path: Path
) -> None:
    offered = Traffic(tmp_path / "frames", "l2l3_acl", 64)
    offered.write()
    with running(Setting(contestant, port, "l2l3_acl", published()), tmp_path / "x") as up:
        # The rate is so low that a ring has room for all packets that come while a busy machine
        # does something else.
        seen = offer(up, offered, 1_000.0, 0.5)
    assert (seen.copies, seen.others) == (seen.sent, 0)
    assert seen.sent > traffic.N_FLOWS
    # Receivers without a flow get nothing. The others get the same number each, or one more.
    assert seen.copies_of_viewer_min == 0
    assert seen.copies_of_viewer_max == -(-seen.sent // traffic.N_FLOWS)


@pytest.mark.alone
@pytest.mark.parametrize(("caches", "hits"), [(OFF, "megaflow hits"), (ON, "emc hits")])
def test_packets_are_found_where_the_setting_says(
    load: None, caches: str, hits: str, tmp_path: Path
) -> None:
    offered = Traffic(tmp_path / "frames", "l2l3_acl", 64)
    offered.write()
    setting = Setting(Contestant("ovs", "", caches), "afxdp", "l2l3_acl", published())
    with running(setting, tmp_path / "x") as up:
        seen = offer(up, offered, 2_000.0, 0.5)
        said = Daemons(up.site, tmp_path / "x").appctl("dpif-netdev/pmd-stats-show")
    numbers = {name.strip(): int(value) for name, value in COUNTED.findall(said.split("main")[0])}
    assert numbers["smc hits"] == 0
    assert (numbers["emc hits"] == 0) == (caches == OFF)
    # All packets but the first of each flow hit.
    assert numbers[hits] >= seen.sent - 2 * traffic.N_FLOWS


@pytest.mark.alone
def test_a_set_has_rates_and_ratios(
    load: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measure, "CONTESTANTS", (NATIVE, OVS))
    assert run(tmp_path, [Cell(0, "afxdp", "l2", 64, QUICK, peak_turns=1)]) == []
    ours, theirs = sorted(
        rows_of(PiscesRow, (tmp_path / "pisces.csv").read_text(), "pisces.csv"),
        key=lambda one: one.switch != "reprise",
    )
    assert (ours.switch, theirs.switch) == ("reprise", "ovs")
    assert ours.packets_per_s_peak > 1_000
    assert ours.peak_of_ovs == pytest.approx(
        ours.packets_per_s_peak / theirs.packets_per_s_peak, rel=1e-4
    )
    assert ours.trial_s == theirs.trial_s == QUICK.trial_s
    probes = (tmp_path / "raw" / "pisces-probes.csv").read_text().splitlines()
    assert len(probes) > 6


def test_sets_become_one_row_of_medians() -> None:
    names = ("reprise", OPTIMISED, ON)
    sets = [row("l2", names, 64, 1e6 * n, of_ovs=n / 10) for n in (9, 10, 12)]
    (merged,) = merged_sets(sets, PiscesRow.names)
    assert merged == replace(
        sets[1],
        sets=3,
        mbit_per_s_peak=mbit_per_s(1e7, 64),
    )


KILLED = """
from pathlib import Path
from lab.pisces.measure import Cell, run
run(Path(__import__("sys").argv[1]), [Cell(0, "afxdp", "l2", 64)])
"""


def standing_children(pid: int) -> dict[int, str]:
    """The children of a process that are stopped (SIGSTOP): their names by process id."""
    found = {}
    for child in children(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name, state = Path(f"/proc/{child}/stat").read_text().split(" (")[1].rsplit(") ", 1)
            if state.startswith("T"):
                found[child] = name
    return found


def test_nothing_stands_for_ever_when_the_lab_is_killed(load: None, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", KILLED, str(tmp_path)]
    limit_s = time.monotonic() + 120.0
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as lab:
        while not {"reprise-switch", "ovs-vswitchd"} <= set(standing_children(lab.pid).values()):
            assert lab.poll() is None
            assert time.monotonic() < limit_s
            time.sleep(0.02)
        standing = standing_children(lab.pid)
        lab.kill()
    while any(Path(f"/proc/{pid}").exists() for pid in standing):
        assert time.monotonic() < limit_s
        time.sleep(0.02)
    name = f"{NAME_PREFIX}-{lab.pid}-"
    with PortPerHost(1):
        assert not [one for one in NAMESPACES.iterdir() if one.name.startswith(name)]
