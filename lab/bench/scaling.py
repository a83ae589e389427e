"""More processors: each has a stream of its own, to as many viewers as the others'.

In the kernel a packet is forwarded on the processor that sends it, so each processor has a load and
a port: the kernel engine with all ports in one switch, and of the relay by hand one for each port,
which share nothing. On AF_XDP one port has as many queues as the switch has workers; workers have
half of the processors, loads the other half. The points are those that the machine has processors
for. They take turns (`lab.bench.turns`).
"""

import contextlib
import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.bench.experiment import Failures, csv_text, each
from lab.bench.fanout import FRAME_LEN_BYTES, REPEATS_MAX, REPEATS_OF_ALL_S, median_row
from lab.bench.forwarders import Forwarder, there_is
from lab.bench.load import SPARE_S, Run
from lab.bench.noise import Listener, Noise
from lab.bench.results import ScalingRow
from lab.bench.search import FULL, QUICK, TRIAL_S, Effort, Found, Trial, in_turns, search
from lab.csvs import text_of
from lab.files import write_whole
from lab.peers import program
from lab.process import ChildError
from lab.rows import in_kernel
from lab.rows.p4 import P4Replication
from lab.rows.row import Row
from lab.rows.xdp_relay import XdpRelay
from lab.sites import SFU_IP, Queued, ScaledSite, StreamPerPort, on_cpu, on_cpus

FILE, ROUNDS_FILE, PROBES_FILE = "scaling.csv", "scaling-rounds.csv", "scaling-probes.csv"
POINTS = (1, 2, 4, 8, 14)
FANOUT = 64
SETS = 3
UP_S = 3.0
START_IN_S = 0.2
"""By when all loads are there; then they begin at the same time."""
SETTLE_PER_S, SETTLE_S = 10_000.0, 0.1
KERNEL = Forwarder("p4_replication", "kernel", in_kernel.PORT, in_kernel.SHARED)
RELAY = Forwarder("xdp_relay", "", in_kernel.PORT, in_kernel.SHARED)
NATIVE = Forwarder("p4_replication", "native", "afxdp", "spin")


class Workers(P4Replication):
    """The switch with so many workers, on as many processors."""

    n_workers = 1

    def placed(self, argv: list[str]) -> list[str]:
        """On the first processors."""
        return on_cpus(range(self.n_workers), argv)


class RelayOfLink(XdpRelay):
    """The relay at one of the links."""

    link_number = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of turns on so many processors."""

    forwarders: tuple[Forwarder, ...]
    processors: int
    number: int = 0
    """Of the set, from 0."""
    effort: Effort = FULL
    fanout: int = FANOUT

    @property
    def planned_s(self) -> float:
        """The approximate duration."""
        return len(self.forwarders) * (UP_S + self.effort.planned_s)

    def __str__(self) -> str:
        names = " beside ".join(str(forwarder) for forwarder in self.forwarders)
        return f"{names}, {self.processors} processors"


def loads_of(forwarder: Forwarder, processors: int) -> list[int]:
    """The processors of the loads."""
    first = processors if forwarder == NATIVE else 0
    return [*range(first, first + processors)]


def cells(
    rounds: int = 0, trial_s: float = TRIAL_S, *, is_quick: bool = False, n_cpus: int = 0
) -> list[Cell]:
    """A set of all points, then the next."""
    n_cpus = n_cpus or len(os.sched_getaffinity(0))
    effort = QUICK if is_quick else Effort(trial_s)
    todo = []
    for number in range(rounds or (1 if is_quick else SETS)):
        for processors in POINTS:
            chosen = tuple(
                one
                for one in (KERNEL, RELAY, NATIVE)
                if there_is(one.row) and loads_of(one, processors)[-1] < n_cpus
            )
            if chosen:
                todo.append(Cell(chosen, processors, number, effort))
    return todo


@dataclass(frozen=True, slots=True)
class Probe:
    """One trial, and its result."""

    cell: Cell
    forwarder: Forwarder
    trial: Trial
    run: Run
    noise: Noise

    @property
    def is_void(self) -> bool:
        """Others used the processors."""
        return self.noise.spoils(self.run.seconds)

    def cells(self) -> dict[str, object]:
        """Its columns in the raw samples."""
        where = {"processors": self.cell.processors, "set": self.cell.number}
        rate = {"step": self.trial.step, "offered_copies_per_s": self.trial.per_s}
        return {**where, **asdict(self.forwarder), **rate, **asdict(self.run), **asdict(self.noise)}


@dataclass(slots=True)
class Up:
    """A forwarder that is set up for all streams."""

    forwarder: Forwarder
    site: ScaledSite
    cell: Cell
    rows: Sequence[Row]
    probes: list[Probe] = field(default_factory=list)
    _repeated_s: float = 0.0

    def tell(self, what: signal.Signals) -> None:
        """Stops its processes, or has them go on."""
        for row in self.rows:
            for pid in row.pids:
                # One that has ended is told of by what was asked of it.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, what)

    def offer(self, trial: Trial) -> Run:
        """It runs for one trial; again where others disturbed it."""
        for _ in range(REPEATS_MAX):
            self.tell(signal.SIGCONT)
            try:
                cpus = [
                    *range(self.cell.processors),
                    *loads_of(self.forwarder, self.cell.processors),
                ]
                listener = Listener(cpus)
                run = offer(self, trial)
                probe = Probe(self.cell, self.forwarder, trial, run, listener.noise())
            finally:
                self.tell(signal.SIGSTOP)
            self.probes.append(probe)
            is_void = probe.is_void or run.loss < 0.0
            if not is_void or self._repeated_s + trial.seconds > REPEATS_OF_ALL_S:
                break
            self._repeated_s += trial.seconds
        return run


def offer(up: Up, trial: Trial) -> Run:
    """All streams at once, each from a processor of its own."""
    cell, site = up.cell, up.site
    rate_pps = trial.per_s / (cell.processors * cell.fanout)
    start_ns = time.monotonic_ns() + round(START_IN_S * 1e9)
    shares_link = len(site.links) < cell.processors
    commands = []
    for number, cpu in enumerate(loads_of(up.forwarder, cell.processors)):
        # On one link the first load's sink counts the copies of all.
        n_viewers = cell.fanout * (cell.processors if shares_link and number == 0 else 1)
        sink = ["--no-sink"] if shares_link and number else ["--xdp-sink"]
        argv = [str(program("load")), *_arguments(site, number)]
        argv += ["--viewers", str(n_viewers), "--rate", f"{rate_pps:.3f}"]
        argv += ["--seconds", f"{trial.seconds:.3f}", "--start-at", str(start_ns), *sink]
        if up.forwarder.is_in_kernel:
            argv.append("--refused-are-lost")
        commands.append(on_cpu(cpu, argv))
    timeout_s = trial.seconds + SPARE_S
    with ThreadPoolExecutor(len(commands)) as pool:
        said = [
            json.loads(text)
            for text in pool.map(lambda argv: site.hosts.run(argv, timeout_s=timeout_s), commands)
        ]
    return together(said, cell.fanout)


def together(said: Sequence[dict[str, float]], fanout: int) -> Run:
    """Several loads' results as one's: sums, the least and the most of all viewers."""
    sums = {
        name: int(sum(one[name] for one in said))
        for name in ("sent", "copies", "copies_while_sending", "refusals", "others")
    }
    counting = [one for one in said if one["copies_of_viewer_max"]] or list(said)
    return Run(
        n_viewers=fanout,
        seconds=max(one["seconds"] for one in said),
        copies_of_viewer_min=int(min(one["copies_of_viewer_min"] for one in counting)),
        copies_of_viewer_max=int(max(one["copies_of_viewer_max"] for one in counting)),
        audio_sent=0,
        audio_copies=0,
        **sums,
    )


def _arguments(site: ScaledSite, number: int) -> list[str]:
    stream, viewers = site.stream(number)
    link, first = site.link_of(stream.sender.number), viewers[0]
    return [
        *("--interface", link.host_interface, "--frame-len", str(FRAME_LEN_BYTES)),
        *("--sfu", f"{SFU_IP}:{stream.udp_port}", "--sfu-mac", link.sfu_mac),
        *("--host", f"{stream.sender.ip}:{stream.udp_port}", "--host-mac", link.host_mac),
        *("--first-viewer", f"{first.ip}:{stream.viewer_udp_port}"),
    ]


def run(folder: Path, todo: Sequence[Cell]) -> Failures:
    """Measures every cell into `scaling.csv`; a cell that fails is returned and left out."""
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    rows: list[ScalingRow] = []
    probes: list[Probe] = []
    failures: Failures = [why for why in (XdpRelay.lacks(),) if why]
    for cell in each(todo, todo[0].planned_s if todo else 0.0, failures):
        try:
            rows += measure(cell, probes)
        except ChildError as error:
            failures.append(f"{cell}: {error}")
        write_whole(folder / ROUNDS_FILE, csv_text(ScalingRow, rows))
        lines = [probe.cells() for probe in probes]
        names = list(lines[0]) if lines else []
        text = text_of([names, *([str(one) for one in line.values()] for line in lines)])
        write_whole(raw / PROBES_FILE, text)
    write_whole(folder / FILE, csv_text(ScalingRow, merged_rows(rows)))
    return failures


def merged_rows(rows: Sequence[ScalingRow]) -> list[ScalingRow]:
    """Sets of the same become one row: the median of each column."""
    alike: dict[tuple[object, ...], list[ScalingRow]] = {}
    for row in rows:
        key = (row.row, row.engine, row.port, row.wait, row.processors, row.fanout)
        alike.setdefault(key, []).append(row)
    return [median_row(sets) for sets in alike.values()]


def measure(cell: Cell, probes: list[Probe]) -> list[ScalingRow]:
    """One cell; its trials are added to `probes`."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reprise-bench-")))
        ups: list[Up] = []
        for forwarder in cell.forwarders:
            up = stack.enter_context(_up(cell, forwarder, folder / str(len(ups))))
            # A stopped process cannot end.
            stack.callback(up.tell, signal.SIGCONT)
            up.probes = probes
            offer(up, Trial(SETTLE_PER_S, SETTLE_S, "settle"))
            up.tell(signal.SIGSTOP)
            ups.append(up)
        first_per_s = cell.effort.first_per_s * cell.processors
        effort = Effort(cell.effort.trial_s, cell.effort.short_s, first_per_s)
        found = in_turns([(search(effort), up.offer) for up in ups])
        return [_row(cell, *pair) for pair in zip(ups, found, strict=True)]


@contextlib.contextmanager
def _up(cell: Cell, forwarder: Forwarder, folder: Path) -> Iterator[Up]:
    """A site for all streams, with the forwarder on it, which knows them."""
    folder.mkdir()
    kind = Queued if forwarder == NATIVE else StreamPerPort
    with kind(cell.processors, cell.fanout) as site, contextlib.ExitStack() as stack:
        rows: list[Row] = []
        streams = [site.stream(number) for number in range(cell.processors)]
        if forwarder == RELAY:
            for number, stream in enumerate(streams):
                place = folder / str(number)
                place.mkdir()
                relay = RelayOfLink(site, forwarder.variant, place)
                relay.link_number = number
                rows.append(stack.enter_context(relay))
                relay.subscribe(*stream)
        else:
            switch = Workers(site, forwarder.variant, folder)
            if forwarder == NATIVE:
                switch.n_workers = cell.processors
                switch.options = ("--workers", str(cell.processors))
            rows.append(stack.enter_context(switch))
            switch.subscribe_all(streams)
        yield Up(forwarder, site, cell, rows)


def _row(cell: Cell, up: Up, found: Found) -> ScalingRow:
    decided = next((one for one in reversed(up.probes) if one.run is found.decided), None)
    return ScalingRow(
        **asdict(up.forwarder),
        processors=cell.processors,
        fanout=cell.fanout,
        copies_per_s_lossless=found.lossless_per_s,
        copies_per_s_peak=found.peak_per_s,
        set=cell.number,
        trial_s=found.trial_s,
        bound_by=found.bound_by,
        is_peak_least=int(found.is_peak_least),
        late_share=found.late_share,
        is_disturbed=int(decided is not None and decided.is_void),
    )
