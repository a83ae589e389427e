"""Runs a study into its folder, one run at a time.

A row is an SFU. A place is a combination of a row, a variant and a load; several runs may share a
place.
"""

import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from lab import meter
from lab.experiment import Benchmark, Cell, Experiment, Part, Place, StreamOf
from lab.meter import SHORT_FRAME_BELOW_BYTES, MeterError, Seen, Sending, least_frame_len
from lab.netns import is_root_of_system
from lab.offered import copies_due, copies_missing, duration_s, sendings_of, streams_of, viewers_of
from lab.process import ChildError, cpu_ns_of_threads, stat_of
from lab.progress import Estimate, bar, clock
from lab.results.folder import Facts, Folder, Run
from lab.results.statistics import percentile
from lab.rows import ROWS
from lab.rows.row import Row, RowError, told_of
from lab.sites import SFU_CPU, Site
from lab.study.suite import measurement_of

N_REPEATS_MAX = 5
N_REPEATS_BEHIND = 1
"""How often a run is repeated if its row leaves the load generator too little processor time.

This can happen only to a row that works on the load generator's processor.
"""
PACE_TOLERANCE = 0.001
"""By what share the time of sending may differ from the planned time."""
PACE_TOLERANCE_S = 0.002
"""The time of sending may differ from the planned time by this much in any case."""
N_SAMPLES_MAX = 3_000
"""About how many samples a run has.

With more packets, only every n-th packet of a stream is a sample.
"""
TICKS_MIN = 20
"""How many ticks (hundredths of a second) are needed to know the kernel's part of the time."""
OVERHEAD_S = 2.0
SET_UP_S = 4.0

Report = Callable[[str], None]


class RowEndedError(ChildError):
    """A process of the row has ended."""


@dataclass(frozen=True, slots=True)
class Running:
    site: Site
    row: Row
    work: Path
    log: Path

    def told(self) -> AbstractContextManager[None]:
        return told_of(self.row.name, self.log)

    @property
    def pids(self) -> tuple[int, ...]:
        with self.told():
            return self.row.pids


def run_missing(folder: Folder, session: int, show: Report, *, only: Sequence[str] = ()) -> None:
    """Does the runs that `folder` lacks, and records in it what could not be measured and why.

    If a row cannot start, refuses viewers or ends, this is recorded and the next row is measured.
    Raises `ChildError` if the meter fails. After this, and after Ctrl-C, all processes are ended,
    and the folder has only complete runs.
    """
    logs = folder.path / "logs"
    shutil.rmtree(logs, ignore_errors=True)
    progress = _Progress(folder, show, only)
    for place in folder.places():
        if (only and place.row not in only) or not folder.missing_at(place):
            continue
        if why := _lacks(place, logs):
            folder.note_not_measured(session, str(place), why)
            continue
        _run_place(folder, session, place, progress)

    for part in folder.missing_benchmarks():
        if not only or part.part in only:
            _run_benchmark(folder, session, part, show)


def _lacks(place: Place, logs: Path) -> str:
    """Returns what the machine lacks for a row, or the error that the row raised when it was asked.

    The text is empty if the machine lacks nothing.
    """
    try:
        with told_of(place.row, logs / place.name):
            return ROWS[place.row].lacks()
    except RowError as error:
        return str(error)


def _run_benchmark(folder: Folder, session: int, part: Benchmark, show: Report) -> None:
    """Runs a benchmark into the work folder, so that an interrupted benchmark leaves no files."""
    measurement = measurement_of(part)
    show(f"{part.part}: about {clock(measurement.planned_s)}")
    if measurement.needs_root and not is_root_of_system():
        folder.note_not_measured(session, part.part, "BPF needs root: begin the command with sudo")
        return
    with folder.work() as work:
        try:
            failures = measurement.run(work)
        except ChildError as error:
            folder.note_not_measured(session, part.part, str(error))
            return
        for idx, failure in enumerate(failures, 1):
            folder.note_not_measured(session, f"{part.part} {idx}", failure)
        folder.keep_benchmark(work, part.file)


def _run_place(folder: Folder, session: int, place: Place, progress: "_Progress") -> None:
    log = folder.path / "logs" / place.name
    log.mkdir(parents=True, exist_ok=True)
    part = folder.experiment.part(place.part)
    progress.show(f"{place}: setting up")
    with folder.work() as work, folder.experiment.site(part) as site, ExitStack() as stack:
        try:
            with told_of(place.row, log):
                row = ROWS[place.row](site, place.variant, log)
                row.__enter__()
        except ChildError as error:
            folder.note_not_measured(session, str(place), str(error))
            return
        stack.enter_context(_stopped(folder, session, place, row, log))
        try:
            _run_sizes(folder, session, place, Running(site, row, work, log), progress)
        except RowEndedError as error:
            why = f"{error}; its logs are in {log}"
            folder.note_not_measured(session, str(place), why)
        except RowError as error:
            folder.note_not_measured(session, str(place), str(error))


@contextmanager
def _stopped(folder: Folder, session: int, place: Place, row: Row, log: Path) -> Iterator[None]:
    """Stops the row after the block, and records an error that it raises while stopping."""
    try:
        yield
    finally:
        try:
            with told_of(place.row, log):
                row.stop()
        except RowError as error:
            folder.note_not_measured(session, f"{place}, its end", str(error))


def _run_sizes(
    folder: Folder, session: int, place: Place, running: Running, progress: "_Progress"
) -> None:
    part = folder.experiment.part(place.part)
    refused: set[Cell] = set()
    while due := [cell for cell in folder.missing_at(place) if cell not in refused]:
        group = [cell for cell in due if cell.participants == due[0].participants]
        if why := _subscribe(part, running, group[0]):
            # The row would refuse a larger size, too, so the next row is measured.
            folder.note_not_measured(session, f"{place}, {group[0].viewers} viewers", why)
            return
        for cell in group:
            progress.begin(cell)
            if why := _repeat(folder, session, part, running, cell):
                folder.note_not_measured(session, cell.name, why)
                refused.add(cell)
            progress.end(cell)
        _unsubscribe(part, running, group[0])


def _subscribe(part: Part, running: Running, cell: Cell) -> str:
    """Subscribes a run's viewers. Returns why the row refuses them, or an empty text."""
    site = running.site
    subscriptions = [
        (stream, viewers_of(of, stream, site, cell)) for of, stream in streams_of(part, site, cell)
    ]
    try:
        with running.told():
            running.row.subscribe_all(subscriptions)
    except ChildError as error:
        process_cpu_s(running.pids)  # raises another error if the row has ended
        return str(error)
    return ""


def _unsubscribe(part: Part, running: Running, cell: Cell) -> None:
    """If several participants send, removes all streams.

    With the next number of participants some of these senders may be missing.
    """
    if cell.senders > 1:
        streams = streams_of(part, running.site, cell)
        with running.told():
            running.row.subscribe_all([(stream, []) for _, stream in streams])


def _repeat(folder: Folder, session: int, part: Part, running: Running, cell: Cell) -> str:
    """Repeats a run until its packets are sent at the planned pace, and keeps that run.

    Returns an empty text, or why the pace was never as planned.
    """
    started = datetime.now(UTC).isoformat(timespec="seconds")
    because: list[str] = []
    while len(because) <= N_REPEATS_MAX:
        loop = meter.empty_loop(SFU_CPU)
        sendings = sendings_of(part, running.site, cell)
        every = sample_every(sendings)
        cpu_s, inside_s = process_cpu_s(running.pids), interrupts_s(SFU_CPU)
        try:
            seen = meter.measure(running.site, sendings, running.work, sample_every=every)
        except MeterError as error:
            because.append(str(error))
            continue
        used_s = process_cpu_s(running.pids) - cpu_s
        share = kernel_share(running.pids)
        planned_s = duration_s(sendings)
        why = unpaced(seen, planned_s)
        # A row on the load's processor may leave the load generator no time. Then the row cannot
        # carry the load: no repeat changes this, and such runs count as broken.
        is_behind = bool(why) and running.row.is_on_load_cpu and len(because) >= N_REPEATS_BEHIND
        if why and not is_behind:
            because.append(why)
            continue
        facts = Facts(
            started=started,
            session=session,
            repeated_because=tuple(because),
            sfu_cpu_s=used_s,
            sfu_kernel_cpu_s=used_s * share if share is not None else None,
            interrupts_s=interrupts_s(SFU_CPU) - inside_s,
            sample_every=every if every > 1 else every_for(len(seen.samples)),
            planned_s=planned_s,
            is_broken=is_behind or is_broken(part, cell, seen),
        )
        folder.keep(Run(cell, facts, loop, thinned(seen, facts.sample_every)))
        return ""
    return because[-1]


def sample_every(sendings: Sequence[Sending]) -> int:
    """Returns n, so that every n-th packet is a sample and there are about `N_SAMPLES_MAX` samples.

    All packets are samples (the n is 1) if a frame is too short for the mark that tells samples
    from other packets, or if BPF cannot count the other packets. In this case the result is thinned
    afterwards.
    """
    has_short = any(least_frame_len(one.packets) < SHORT_FRAME_BELOW_BYTES for one in sendings)
    if has_short or not is_root_of_system():
        return 1
    return every_for(sum(sending.packets.n_packets for sending in sendings))


def every_for(n_packets: int) -> int:
    """Returns the step between samples.

    The step is odd, so that the samples fall on all positions within a video frame.
    """
    every = max(1, math.ceil(n_packets / N_SAMPLES_MAX))
    return every if every % 2 else every + 1


def thinned(seen: Seen, every: int) -> Seen:
    """Keeps every `every`-th sample of each stream. Copies are still counted for all packets."""
    samples = tuple(one for one in seen.samples if one.sequence % every == 0)
    return replace(seen, samples=samples)


def unpaced(seen: Seen, planned_s: float) -> str:
    """Why the pace of the load was not as planned; empty if it was."""
    off_s = abs(seen.totals.sending_s - planned_s)
    if off_s <= max(PACE_TOLERANCE * planned_s, PACE_TOLERANCE_S):
        return ""
    return f"sending took {seen.totals.sending_s:.4f} s, planned were {planned_s:.4f} s"


def is_broken(part: Part, cell: Cell, seen: Seen) -> bool:
    due = copies_due(part, cell.participants, seen.totals.sent_of_streams)
    last_ms = [sample.last_copy_ns / 1e6 for sample in seen.samples if sample.copies]
    is_late = (percentile(last_ms, part.limit_percentile) or 0) > part.limit_ms
    return is_late or copies_missing(due, seen.slots) > 0


def process_cpu_s(pids: Sequence[int]) -> float:
    """The processor time of processes so far. Raises `RowEndedError` if a process has ended."""
    total_ns = 0
    for pid in pids:
        times = cpu_ns_of_threads(pid)
        if not times or _state(pid) == "Z":
            raise RowEndedError(f"the row's process {pid} has ended")
        total_ns += sum(times)
    return total_ns / 1e9


def _state(pid: int) -> str:
    try:
        return stat_of(pid)[0]
    except (FileNotFoundError, ProcessLookupError):
        return "Z"


def kernel_share(pids: Sequence[int]) -> float | None:
    """System calls' share of the processes' time so far; None if timer ticks are too few."""
    user, system = 0, 0
    for pid in pids:
        try:
            ticks = stat_of(pid)[11:13]
        except (FileNotFoundError, ProcessLookupError):
            raise RowEndedError(f"the row's process {pid} has ended") from None
        user, system = user + int(ticks[0]), system + int(ticks[1])
    return system / (user + system) if user + system >= TICKS_MIN else None


def interrupts_s(cpu: int) -> float:
    """The time that a processor has spent in interrupts so far (proc(5), /proc/stat)."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{cpu}":
            return (int(ticks[5]) + int(ticks[6])) / os.sysconf("SC_CLK_TCK")
    raise ChildError(f"/proc/stat has no cpu{cpu}: the lab needs two processors")


def planned_s(cells: Sequence[Cell], experiment: Experiment) -> float:
    """The time that runs are expected to take."""
    n_places = len({cell.place for cell in cells})
    of_cells = (_cell_s(experiment.part(cell.place.part)) for cell in cells)
    return SET_UP_S * n_places + sum(of_cells)


def _cell_s(part: Part) -> float:
    lasts = [of.packets_max * _interval_s(of) for of in part.streams]
    return OVERHEAD_S + (max(lasts) or part.duration_s)


def _interval_s(of: StreamOf) -> float:
    """The time from one packet of a burst to the next."""
    if of.bitrate_mbps:
        return _len(of.frame_len_bytes) * 8e-6 / of.bitrate_mbps
    if of.packets_per_s:
        return 1 / of.packets_per_s
    return sum(of.interval_ms) / 2e3 if of.interval_ms else 0.0


def _len(frame_len_bytes: int | tuple[int, int]) -> int:
    return frame_len_bytes if isinstance(frame_len_bytes, int) else frame_len_bytes[1]


class _Progress:
    def __init__(self, folder: Folder, show: Report, only: Sequence[str]) -> None:
        self._folder = folder
        self._only = only
        self._left = self._missing()
        self._n_done = 0
        self._show = show
        self._estimate = Estimate()
        self._begun_s = 0.0

    def _missing(self) -> list[Cell]:
        missing = self._folder.missing()
        return [cell for cell in missing if not self._only or cell.place.row in self._only]

    def show(self, what: str) -> None:
        left_s = self._estimate.left_s(
            planned_s(self._left, self._folder.experiment), len(self._left)
        )
        self._show(bar(self._n_done, self._n_done + len(self._left), left_s, what))

    def begin(self, cell: Cell) -> None:
        self._begun_s = time.monotonic()
        self._left = self._missing()
        self.show(str(cell))

    def end(self, cell: Cell) -> None:
        self._n_done += 1
        took_s = time.monotonic() - self._begun_s
        self._estimate.add(took_s, _cell_s(self._folder.experiment.part(cell.place.part)))
