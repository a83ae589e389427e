"""Runs a study into its folder: one burst at a time, nothing beside it."""

import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from lab.addresses import SFU_IP
from lab.capture import CaptureError, read_capture, start_capture
from lab.netns import Star
from lab.study.analysis import Measurement, measure
from lab.study.bench import Bench, cpu_s, frames_from_sfu, start_paced_sender, wait_until_served
from lab.study.definitions import N_HOSTS_DEFAULT, N_REPEATS_MAX, QUIET_S, RunId, Sfu, planned_s
from lab.study.folder import Folder, RunFacts
from lab.study.progress import Estimate, bar
from lab.study.sfus import SfuUnderTest, sfu_on

SENDER_TIMEOUT_S = 30.0
DRAIN_TIMEOUT_S = 300.0
CAPTURE_TIMEOUT_S = 30.0

Report = Callable[[str], None]
SfuOn = Callable[[Bench, Sfu], SfuUnderTest]


@dataclass(frozen=True, slots=True)
class Settings:
    """How a study is run; tests put their own SFU on the bench."""

    n_hosts: int = N_HOSTS_DEFAULT
    star_type: type[Star] = Star
    sfu_on: SfuOn = sfu_on


@dataclass(frozen=True, slots=True)
class Attempt:
    """One burst that was captured whole."""

    capture: Path
    measurement: Measurement
    viewer_ips: tuple[str, ...]
    n_captured: int
    sfu_cpu_s: float


def run_missing(
    folder: Folder, session: int, show: Report, settings: Settings | None = None
) -> dict[RunId, list[str]]:
    """Does the runs that `folder` lacks; returns those that could not be had, with the reasons.

    Raises `ChildError` when a process that takes part ends; then and at Ctrl-C everything that was
    started is ended and removed, and the folder holds whole runs only.
    """
    return _Session(folder, session, show, settings or Settings()).run()


class _Session:
    """One go at the runs that are missing."""

    def __init__(self, folder: Folder, session: int, show: Report, settings: Settings) -> None:
        self._folder = folder
        self._session = session
        self._progress = _Progress(folder, show)
        self._settings = settings
        self._refused: dict[RunId, list[str]] = {}

    def run(self) -> dict[RunId, list[str]]:
        logs = self._folder.path / "logs"
        shutil.rmtree(logs, ignore_errors=True)
        missing = self._folder.missing()
        for (sfu, bitrate), runs in groupby(missing, key=lambda run: (run.sfu, run.bitrate_mbps)):
            place = logs / f"{sfu}-{bitrate:g}mbps"
            place.mkdir(parents=True)
            self._run_series(sfu, list(runs), place)
        return self._refused

    def _run_series(self, sfu: Sfu, runs: list[RunId], logs: Path) -> None:
        settings = self._settings
        n_viewers = max(run.viewers for run in runs)
        self._progress.show(f"{sfu.label}: setting up")
        with (
            self._folder.work() as work,
            Bench(n_viewers, logs, n_hosts=settings.n_hosts, star_type=settings.star_type) as bench,
            settings.sfu_on(bench, sfu) as under_test,
        ):
            for viewers, group in groupby(runs, key=lambda run: run.viewers):
                stations = bench.stations(viewers)
                under_test.serve(stations)
                for run in group:
                    self._progress.begin(run)
                    self._repeat(run, lambda one: attempt_run(one, bench, under_test, work))
                    self._progress.end(run)

    def _repeat(self, run: RunId, attempt_at: Callable[[RunId], Attempt]) -> None:
        started = datetime.now(UTC).isoformat(timespec="seconds")
        because: list[str] = []
        while len(because) <= N_REPEATS_MAX:
            try:
                attempt = attempt_at(run)
            except CaptureError as error:
                because.append(str(error))
                continue
            if not attempt.measurement.is_paced(run.bitrate_kbps):
                because.append(f"true bitrate {attempt.measurement.true_bitrate_kbps} kbit/s")
                continue
            facts = RunFacts(
                repeats=len(because),
                repeated_because=tuple(because),
                sfu_cpu_s=attempt.sfu_cpu_s,
                viewer_ips=attempt.viewer_ips,
                started=started,
                n_captured=attempt.n_captured,
                session=self._session,
            )
            self._folder.keep(run, attempt.capture, facts)
            return
        self._refused[run] = because


def attempt_run(run: RunId, bench: Bench, under_test: SfuUnderTest, work: Path) -> Attempt:
    """Sends one burst and measures it; raises `CaptureError` if the capture lost frames."""
    viewer_ips = tuple(station.ip for station in bench.stations(run.viewers))
    capture = work / "sfu.pcap"
    capture.unlink(missing_ok=True)
    ticks_per_s = os.sysconf("SC_CLK_TCK")
    pid = under_test.process.pid
    with start_capture(bench.star.bridge, capture, bench.logs / "capture.log") as capturing:
        cpu_before_s = cpu_s(pid, ticks_per_s)
        n_before = frames_from_sfu(capturing)
        with start_paced_sender(bench, run.burst) as sender:
            sender.expect_success(run.burst_s + SENDER_TIMEOUT_S)
        wait_until_served(
            capturing,
            n_expected=n_before + run.burst.n_packets * run.viewers,
            quiet_s=QUIET_S,
            timeout_s=DRAIN_TIMEOUT_S,
        )
        if (code := under_test.process.exit_code) is not None:
            raise under_test.process.fail(f"exit code {code} during the run {run.name}")
        bench.check()
        used_s = cpu_s(pid, ticks_per_s) - cpu_before_s
        capturing.finish(CAPTURE_TIMEOUT_S)
    records = read_capture(capture)
    measurement = measure(records, SFU_IP, viewer_ips)
    return Attempt(capture, measurement, viewer_ips, len(records), used_s)


class _Progress:
    def __init__(self, folder: Folder, show: Report) -> None:
        self._all = folder.study.runs()
        self._left = folder.missing()
        self._show = show
        self._estimate = Estimate()
        self._begun_s = 0.0

    def show(self, what: str) -> None:
        left_s = self._estimate.left_s(planned_s(self._left), len(self._left))
        self._show(bar(len(self._all) - len(self._left), len(self._all), left_s, what))

    def begin(self, run: RunId) -> None:
        self._begun_s = time.monotonic()
        self.show(
            f"{run.sfu.label}, {run.bitrate_mbps:g} Mbit/s, {run.viewers} viewers, run {run.run}"
        )

    def end(self, run: RunId) -> None:
        self._left.remove(run)
        self._estimate.add(time.monotonic() - self._begun_s, run.planned_s)


def latest_unfinished(candidates: Iterable[Folder], study_name: str) -> Folder | None:
    """The newest folder of a study that still lacks runs."""
    unfinished = [
        folder for folder in candidates if folder.study.name == study_name and folder.missing()
    ]
    return unfinished[-1] if unfinished else None
