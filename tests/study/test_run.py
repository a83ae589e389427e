"""Studies on real namespaces: with the user-space SFU, and with a stand-in for the switch."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab import netns
from lab.process import REPOSITORY, ChildError
from lab.study import definitions
from lab.study.bench import Bench
from lab.study.definitions import RunId, Sfu
from lab.study.folder import Folder
from lab.study.run import Attempt, _Session, attempt_run, run_missing
from lab.study.sfus import UserspaceSfu
from tests.study.processes import alive, children
from tests.study.standin import STUDY, StandIn, settings


@pytest.fixture
def place(namespaces: None, tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert not list(netns.NAMESPACES.glob(f"{netns.NAME_PREFIX}-{os.getpid()}-*"))


def quiet(_: str) -> None:
    pass


def new_folder(place: Path) -> Folder:
    return Folder.create(place, STUDY, datetime(2026, 1, 2, tzinfo=UTC))


def half_written(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if "partial" in file.name or file.name == ".work"]


def test_a_sleep_of_50_ms_in_the_user_space_sfu_is_50_ms_of_delay(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "N_PACKETS", 20)
    run = RunId(Sfu.USERSPACE, 0.076, 1, 1)
    found = []
    for sleep_ms in (0.0, 50.0):
        with Bench(1, place) as bench, UserspaceSfu(bench, sleep_ms=sleep_ms) as sfu:
            sfu.serve(bench.stations(1))
            found.append(attempt_run(run, bench, sfu, place).measurement)
    without, slept = found
    assert slept.packets_in == slept.packets_out == 20
    assert without.min_delay_s is not None
    assert slept.min_delay_s is not None
    assert slept.avg_delay_s is not None
    assert slept.min_delay_s >= 0.05
    assert slept.min_delay_s - without.min_delay_s == pytest.approx(0.05, abs=0.01)


def test_the_user_space_sfu_copies_to_each_viewer_even_those_on_the_sink(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "N_PACKETS", 5)
    run = RunId(Sfu.USERSPACE, 0.076, 4, 1)
    # Three hosts: the presenter, viewer 1, and the sink with viewers 2 to 4.
    with Bench(4, place, n_hosts=3) as bench, UserspaceSfu(bench) as sfu:
        sfu.serve(bench.stations(4))
        attempt = attempt_run(run, bench, sfu, place)
        sink = bench.star.host(3).udp_counters()
    found = attempt.measurement
    assert (found.packets_in, found.packets_out, found.copies_missing) == (5, 20, 0)
    assert found.true_bitrate_kbps == pytest.approx(76, rel=0.01)
    # One of the 15 lies in the socket that nobody reads, the others found it full.
    assert sink["RcvbufErrors"] == 14
    assert sink["NoPorts"] == sink["InCsumErrors"] == 0
    assert attempt.sfu_cpu_s > 0


def test_a_study_runs_whole_and_its_bitrates_are_right(place: Path) -> None:
    folder = new_folder(place)
    assert run_missing(folder, 0, quiet, settings()) == {}
    assert folder.missing() == []
    for run in folder.runs():
        assert run.measurement.is_paced(4000)
        assert run.measurement.packets_out == 300 * run.id.viewers
        assert run.measurement.copies_missing == 0
    assert half_written(folder.path) == []


def test_a_run_that_is_not_paced_is_repeated_five_times_then_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "N_PACKETS", 5)
    monkeypatch.setattr(RunId, "bitrate_kbps", property(lambda _: 4000.0))
    folder = new_folder(place)
    session = _Session(folder, 0, quiet, settings())
    run = STUDY.runs()[0]
    tried = []
    with Bench(1, place) as bench, StandIn(bench) as sfu:
        sfu.serve(bench.stations(1))
        attempt = attempt_run(run, bench, sfu, place)

        def attempt_at(one: RunId, good_at: int) -> Attempt:
            tried.append(one)
            paced = len(tried) == good_at
            kbps = 4000.0 if paced else 3990.0
            return replace(
                attempt, measurement=replace(attempt.measurement, true_bitrate_kbps=kbps)
            )

        session._repeat(run, lambda one: attempt_at(one, 7))
        assert (len(tried), session._refused) == (6, {run: ["true bitrate 3990.0 kbit/s"] * 6})
        assert not folder.is_done(run)
        tried.clear()
        session._repeat(run, lambda one: attempt_at(one, 3))
    assert folder.facts(run).repeats == 2
    assert folder.facts(run).repeated_because == ("true bitrate 3990.0 kbit/s",) * 2


@pytest.fixture
def study_process(place: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    folder = place / "study"
    with subprocess.Popen(
        [sys.executable, "-m", "tests.study.standin", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    ) as process:
        yield process, folder
        process.kill()


def wait_for(process: subprocess.Popen[str], what: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if what in line:
            return
    raise AssertionError(f"no line with {what!r}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_study_leaves_nothing_half_and_is_gone_on_with(
    study_process: tuple[subprocess.Popen[str], Path], number: signal.Signals
) -> None:
    process, path = study_process
    wait_for(process, "1 viewers, run 2")
    while not len(started := children(process.pid)) >= 4:  # sink, stand-in, capture, sender
        assert process.poll() is None
    process.send_signal(number)
    process.wait(20)
    assert process.returncode != 0
    assert not any(alive(pid) for pid in started)
    assert not list(netns.NAMESPACES.glob(f"{netns.NAME_PREFIX}-{process.pid}-*"))
    assert half_written(path) == []
    folder = Folder.open(path)
    assert len(folder.missing()) == 5
    kept = (path / "captures" / f"{STUDY.runs()[0].name}.pcap.xz").read_bytes()
    assert run_missing(folder, 0, quiet, settings()) == {}
    assert folder.missing() == []
    assert (path / "captures" / f"{STUDY.runs()[0].name}.pcap.xz").read_bytes() == kept
    assert len(folder.runs()) == 6


@pytest.mark.parametrize("which", ["tests.lab.replicator", "lab.study.sink", "lab.capture"])
def test_a_study_whose_child_is_killed_ends_with_its_name_and_leaves_nothing(
    study_process: tuple[subprocess.Popen[str], Path], which: str
) -> None:
    process, path = study_process
    wait_for(process, "1 viewers, run 1")
    deadline_s = time.monotonic() + 20
    killed = False
    while not killed and time.monotonic() < deadline_s:
        for pid in children(process.pid):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if f"\0{which}\0".encode() in command and b"nsenter" not in command:
                os.kill(pid, signal.SIGKILL)
                killed = True
    assert killed
    started = children(process.pid)
    process.wait(30)
    assert process.returncode != 0
    assert process.stderr is not None
    assert ChildError.__name__ in process.stderr.read()
    assert not any(alive(pid) for pid in started)
    assert not list(netns.NAMESPACES.glob(f"{netns.NAME_PREFIX}-{process.pid}-*"))
    assert half_written(path) == []
    assert Folder.open(path).missing()
