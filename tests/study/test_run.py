"""Runs studies in real namespaces, with a stand-in SFU. Whatever is killed, a study can go on."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lab import meter, netns, peers
from lab.meter import MeterError, Seen, Sending, Steady, Trace
from lab.process import REPOSITORY, ChildError, run
from lab.results.folder import Folder
from lab.sites import OnePort, Stream
from lab.study import runner
from lab.study.runner import run_missing
from tests.study import small
from tests.study.processes import alive, children, is_metering, is_module
from tests.study.synthetic import cell_of, part_of, run_of

LIMIT_S = 120.0
STREAM = Stream(1, OnePort(2).participant(1))
NO_SPACE = "No space left on device"


@pytest.fixture(autouse=True)
def place(namespaces: None, tmp_path: Path) -> Iterator[Path]:
    peers.build()
    yield tmp_path
    assert namespaces_of(os.getpid()) == []


def namespaces_of(pid: int) -> list[Path]:
    return list(netns.NAMESPACES.glob(f"{netns.NAME_PREFIX}-{pid}-*"))


def new_folder(file: Path) -> Folder:
    return Folder.create(file.parent, file.read_text(), str(file), datetime(2026, 1, 2, tzinfo=UTC))


def quiet(_: str) -> None:
    pass


def run_in(folder: Folder, only: tuple[str, ...] = ()) -> dict[str, str]:
    """Does the missing runs; returns what could not be measured, and why."""
    run_missing(folder, folder.add_session({}), quiet, only=only)
    return folder.not_measured


def half_written(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if "partial" in file.name or file.name == ".work"]


def test_a_study_runs_whole(place: Path) -> None:
    folder = new_folder(small.write(place, runs=2))
    assert run_in(folder) == {}
    assert folder.is_complete
    runs = list(folder.runs())
    assert [(one.cell.viewers, one.cell.run) for one in runs] == [(1, 1), (1, 2), (3, 1), (3, 2)]
    for one in runs:
        assert one.seen.totals.copies == 8 * one.cell.viewers
        assert one.facts.planned_s == pytest.approx(7 / 400)
        assert one.facts.sfu_cpu_s >= (one.facts.sfu_kernel_cpu_s or 0) >= 0
        assert one.facts.sfu_cpu_s > 0
        assert not one.facts.is_broken
        assert one.empty_loop.loops > 0
    assert half_written(folder.path) == []


def test_what_a_row_loses_makes_its_size_broken(place: Path) -> None:
    folder = new_folder(small.write(place, options=("--lose", "4"), viewers="2"))
    run_in(folder)
    (one,) = folder.runs()
    assert one.facts.is_broken
    assert one.seen.totals.copies == 14


def test_a_copy_to_a_stranger_makes_up_for_no_missing_one(place: Path) -> None:
    options = ("--stray", "1", "--to", "10.1.0.1")
    folder = new_folder(small.write(place, options=options, viewers="1"))
    run_in(folder)
    (one,) = folder.runs()
    assert one.seen.totals.copies == one.seen.totals.copies_due
    assert one.facts.is_broken


def test_rows_that_cannot_be_had_are_noted_and_the_study_goes_on(place: Path) -> None:
    folder = new_folder(small.write(place, rows="lacking, failing, refusing, mine"))
    found = run_in(folder)
    assert found["a: lacking"] == "no gold here: dig"
    assert "unrecognized arguments: --no-such-option" in found["a: failing"]
    assert found["a: refusing, 3 viewers"] == "one viewer, no more"
    assert len(found) == 3
    rows = [(one.cell.place.row, one.cell.viewers) for one in folder.runs()]
    assert rows == [("refusing", 1), ("mine", 1), ("mine", 3)]
    assert not folder.is_complete


def test_only_some_rows_are_measured_where_that_is_said(place: Path) -> None:
    folder = new_folder(small.write(place, rows="failing, mine"))
    assert run_in(folder, only=("mine",)) == {}
    assert {one.cell.place.row for one in folder.runs()} == {"mine"}


@pytest.mark.parametrize(
    ("n_packets", "frame_len_bytes", "is_root", "every"),
    [
        (3_000, 1400, True, 1),
        (3_001, 1400, True, 3),
        (15_000, 1400, True, 5),
        (12_001, 70, True, 5),
        (15_000, 69, True, 1),
        (15_000, 1400, False, 1),
    ],
)
def test_many_packets_are_sampled_where_that_can_be(
    monkeypatch: pytest.MonkeyPatch, n_packets: int, frame_len_bytes: int, is_root: bool, every: int
) -> None:
    monkeypatch.setattr(runner, "is_root_of_system", lambda: is_root)
    long = Sending(STREAM, Steady(n_packets - 1, 1.0, 1400), 1)
    one = Sending(STREAM, Trace(((0, frame_len_bytes),)), 1)
    assert runner.sample_every([long, one]) == every


def test_of_many_packets_that_were_all_timed_samples_are_kept() -> None:
    part = part_of("participants: 3\n    senders: everybody\n    streams: [{packets_per_s: 50}]")
    seen = run_of(part, cell_of(3, senders=3), n_packets=20).seen
    every = runner.every_for(7_000)
    assert every == 3
    kept = runner.thinned(seen, every)
    assert {one.sequence for one in kept.samples} == {0, 3, 6, 9, 12, 15, 18}
    assert {one.stream for one in kept.samples} == {one.stream for one in seen.samples}
    assert (kept.totals, kept.slots) == (seen.totals, seen.slots)
    assert runner.thinned(seen, runner.every_for(3_000)) == seen


def test_processor_time_is_the_processes_and_one_that_ended_is_told() -> None:
    def work() -> None:
        until_s = time.process_time() + 0.3
        while time.process_time() < until_s:
            pass

    before_s = runner.process_cpu_s([os.getpid()])
    work()
    assert 0.29 <= runner.process_cpu_s([os.getpid()]) - before_s < 2
    share = runner.kernel_share([os.getpid()])
    assert share is not None
    assert 0 <= share <= 1
    assert runner.kernel_share([]) is None
    assert runner.interrupts_s(0) >= 0
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    for of in (runner.process_cpu_s, runner.kernel_share):
        with pytest.raises(runner.RowEndedError, match=f"the row's process {ended.pid} has ended"):
            of([os.getpid(), ended.pid])


def unpaced_until(good_at: int) -> tuple[list[Seen], Callable[..., Seen]]:
    tried: list[Seen] = []
    measure = meter.measure

    def measured(*arguments: object, **named: object) -> Seen:
        seen = measure(*arguments, **named)  # type: ignore[arg-type]
        tried.append(seen)
        if len(tried) == good_at:
            return seen
        return replace(seen, totals=replace(seen.totals, sending_s=9.0))

    return tried, measured


def test_a_run_that_is_not_paced_is_repeated_five_times_then_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = small.write(place, viewers="1")
    measure = meter.measure
    tried, measured = unpaced_until(7)
    monkeypatch.setattr(meter, "measure", measured)
    folder = new_folder(file)
    says = "sending took 9.0000 s, planned were 0.0175 s"
    assert run_in(folder) == {"a-mine-0001viewers-run1": says}
    assert (len(tried), list(folder.runs())) == (6, [])

    monkeypatch.setattr(meter, "measure", measure)
    tried, measured = unpaced_until(3)
    monkeypatch.setattr(meter, "measure", measured)
    assert run_in(folder) == {}
    (one,) = folder.runs()
    assert one.facts.repeated_because == (says,) * 2
    assert (one.facts.session, len(folder.sessions)) == (1, 2)


def test_an_instrument_that_lost_samples_repeats_the_run(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measure = meter.measure
    errors = [MeterError("3 copies were not timed: sample fewer packets")]

    def measured(*arguments: object, **named: object) -> Seen:
        if errors:
            raise errors.pop()
        return measure(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(meter, "measure", measured)
    folder = new_folder(small.write(place, viewers="1"))
    assert run_in(folder) == {}
    (one,) = folder.runs()
    assert one.facts.repeated_because == ("3 copies were not timed: sample fewer packets",)


def test_a_full_disk_is_said_and_leaves_nothing_half(place: Path) -> None:
    file = small.write(place, viewers="1", packets=300)
    disk = place / "disk"
    disk.mkdir()
    run(["mount", "-t", "tmpfs", "-o", "size=28k", "tmpfs", str(disk)])
    try:
        now = datetime(2026, 1, 2, tzinfo=UTC)
        folder = Folder.create(disk, file.read_text(), str(file), now)
        with pytest.raises((OSError, ChildError), match=NO_SPACE):
            run_in(folder)
        assert half_written(folder.path) == []
        assert list(folder.path.glob("raw/*")) == []
        run(["mount", "-o", "remount,size=4m", str(disk)])
        assert run_in(folder) == {}
        assert folder.is_complete
    finally:
        run(["umount", str(disk)])


class Study:
    def __init__(self, file: Path) -> None:
        argv = [sys.executable, "-m", "lab.cli", "run", str(file), "--results", str(file.parent)]
        self.process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY
        )
        self.results = file.parent
        self.started: set[int] = set()
        self.said = ""

    def wait_until(self, is_so: Callable[[], object]) -> None:
        deadline_s = time.monotonic() + LIMIT_S
        while not is_so():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline_s
            self.started |= set(children(self.process.pid))
            time.sleep(0.002)

    def meters(self) -> list[int]:
        return [pid for pid in children(self.process.pid) if is_metering(pid)]

    def forwarders(self) -> list[int]:
        return [
            pid for pid in children(self.process.pid) if is_module(pid, "tests.study.forwarder")
        ]

    def log(self) -> str:
        return "".join(file.read_text() for file in self.results.rglob("standin.log"))

    def end(self) -> int:
        self.said = "".join(self.process.communicate(timeout=LIMIT_S))
        return self.process.returncode

    @property
    def folder(self) -> Folder:
        (file,) = self.results.glob("mine-*/experiment.yaml")
        return Folder.open(file.parent)


@pytest.fixture
def study() -> Iterator[Callable[[Path], Study]]:
    begun: list[Study] = []

    def begin(file: Path) -> Study:
        begun.append(Study(file))
        return begun[-1]

    yield begin
    for one in begun:
        one.process.kill()
        one.process.communicate()


def is_setting_up(study: Study) -> bool:
    return any(one.name.endswith("-hosts") for one in namespaces_of(study.process.pid))


def is_subscribing(study: Study) -> bool:
    return "ready:" in study.log()


def is_measuring(study: Study) -> bool:
    return study.meters() != []


SLOW = ("--slow", "20")
LONG = 4_000
MOMENTS = [
    (is_setting_up, {}, signal.SIGINT),
    (is_setting_up, {}, signal.SIGKILL),
    (is_subscribing, {"options": SLOW}, signal.SIGTERM),
    (is_measuring, {"packets": LONG}, signal.SIGINT),
    (is_measuring, {"packets": LONG}, signal.SIGKILL),
    # The meter sends eight packets at once, and then waits for copies that do not come.
    (is_measuring, {"options": ("--lose", "1"), "viewers": "1"}, signal.SIGTERM),
]


@pytest.mark.parametrize(("moment", "what", "number"), MOMENTS)
def test_a_study_that_is_killed_leaves_nothing_and_is_gone_on_with(
    study: Callable[[Path], Study],
    place: Path,
    moment: Callable[[Study], bool],
    what: dict[str, object],
    number: signal.Signals,
) -> None:
    one = study(small.write(place, **what))  # type: ignore[arg-type]
    one.wait_until(lambda: moment(one))
    one.process.send_signal(number)
    code = one.end()
    assert code == (-9 if number == signal.SIGKILL else 130), one.said
    if number == signal.SIGKILL:
        # The next command cleans up what the killed command left. The kernel ends the killed
        # command's children.
        netns.remove_leftovers()
        deadline_s = time.monotonic() + LIMIT_S
        while any(alive(pid) for pid in one.started) and time.monotonic() < deadline_s:
            time.sleep(0.01)
    else:
        assert "reprise-lab: interrupted" in one.said
        resume = f"run {place / 'mine.yaml'} --resume {one.folder.path}"
        assert f"go on: ./reprise-lab {resume}" in one.said
        assert half_written(one.folder.path) == []
    assert not any(alive(pid) for pid in one.started)
    assert namespaces_of(one.process.pid) == []
    assert len(one.folder.missing()) >= 1

    small.write(one.folder.path)  # a row without the delays of this test
    (one.folder.path / "mine.yaml").unlink()
    folder = one.folder
    text = (folder.path / "experiment.yaml").read_text().replace(f"packets: {LONG}", "packets: 8")
    (folder.path / "experiment.yaml").write_text(text)
    assert run_in(folder) == {}
    assert folder.is_complete
    assert half_written(folder.path) == []


def test_a_row_that_is_killed_is_noted_and_the_study_is_resumable(
    study: Callable[[Path], Study], place: Path
) -> None:
    one = study(small.write(place, viewers="1", packets=300))
    one.wait_until(lambda: is_measuring(one))
    (pid,) = one.forwarders()
    os.kill(pid, signal.SIGKILL)
    assert one.end() == 1  # nothing was measured, so there is no report
    assert "has no finished run yet" in one.said
    assert f"not measured: a: mine: the row's process {pid} has ended" in one.said
    (why,) = one.folder.not_measured.values()
    assert why.startswith(f"the row's process {pid} has ended; its logs are in ")
    assert namespaces_of(one.process.pid) == []
    assert run_in(one.folder) == {}


def test_a_study_whose_instrument_is_killed_ends_with_its_name(
    study: Callable[[Path], Study], place: Path
) -> None:
    one = study(small.write(place, packets=LONG))
    one.wait_until(lambda: is_measuring(one))
    (pid,) = one.meters()
    os.kill(pid, signal.SIGKILL)
    assert one.end() == 1
    assert "reprise-lab: exit code -9 of " in one.said
    assert "target/peers/meter" in one.said
    assert "--resume" in one.said
    assert not any(alive(pid) for pid in one.started)
    assert namespaces_of(one.process.pid) == []
    assert half_written(one.folder.path) == []
    assert len(one.folder.missing()) == 2
