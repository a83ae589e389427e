"""Measures scaling over processors, each with a stream of its own to equally many viewers.

In the kernel a packet is forwarded on the processor that sends it, so each processor has a port and
a load (the program that sends). The kernel engine has all ports in one switch; the relay, written
by hand in XDP, runs once for each port, and its processes share nothing. On AF_XDP one port has as
many queues as the switch has workers; the workers have one half of the processors, the loads the
other half. Measurements that need more processors than the machine has are left out. The forwarders
take turns (`lab.bench.turns`).
"""

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lab.bench import load
from lab.bench.cells import Failures, measured_sets
from lab.bench.forwarders import KERNEL, NATIVE, RELAY, Forwarder, there_is
from lab.bench.load import SPARE_S, Run
from lab.bench.noise import Listener
from lab.bench.search import FULL, QUICK, TRIAL_S, Effort, Found, Trial, in_turns, search
from lab.bench.trials import Probe, Runner
from lab.process import InTurn
from lab.results.benchmarks import ScalingRow
from lab.rows.p4 import P4Replication
from lab.rows.row import Row
from lab.rows.xdp_relay import XdpRelay
from lab.sites import Queued, ScaledSite, StreamPerPort, on_cpu

POINTS = (1, 2, 4, 8, 14)
FANOUT = 64
SETS = 3
UP_S = 3.0
START_IN_S = 0.2
"""How much time all loads have to start, before they begin to send at the same moment."""
SETTLE_PER_S, SETTLE_S = 10_000.0, 0.1


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of alternating trials on a number of processors."""

    forwarders: tuple[Forwarder, ...]
    processors: int
    number: int = 0
    """The set's number, from 0."""
    effort: Effort = FULL
    fanout: int = FANOUT

    @property
    def planned_s(self) -> float:
        return len(self.forwarders) * (UP_S + self.effort.planned_s)

    def __str__(self) -> str:
        names = " beside ".join(str(forwarder) for forwarder in self.forwarders)
        return f"{names}, {self.processors} processors"


def loads_of(forwarder: Forwarder, processors: int) -> list[int]:
    first = processors if forwarder == NATIVE else 0
    return [*range(first, first + processors)]


def cells(
    rounds: int = 0, trial_s: float = TRIAL_S, *, is_quick: bool = False, n_cpus: int = 0
) -> list[Cell]:
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


@dataclass(slots=True)
class Up(InTurn, Runner):
    forwarder: Forwarder
    site: ScaledSite
    cell: Cell
    pids: tuple[int, ...]
    probes: list[Probe]

    def _once(self, trial: Trial) -> Probe:
        processors = self.cell.processors
        with self.turn():
            listener = Listener([*range(processors), *loads_of(self.forwarder, processors)])
            run = offer(self, trial)
            noise = listener.noise()
        what = {"processors": processors, "set": self.cell.number, **asdict(self.forwarder)}
        return Probe(what, trial, run, noise)


def offer(up: Up, trial: Trial) -> Run:
    """Offers all streams at once, each from a processor of its own."""
    cell, site = up.cell, up.site
    rate_pps = trial.per_s / (cell.processors * cell.fanout)
    start_ns = time.monotonic_ns() + round(START_IN_S * 1e9)
    shares_link = len(site.links) < cell.processors
    commands = []
    for number, cpu in enumerate(loads_of(up.forwarder, cell.processors)):
        # If the loads share one link, the first load's sink counts the copies of all of them.
        n_viewers = cell.fanout * (cell.processors if shares_link and number == 0 else 1)
        sink = ["--no-sink"] if shares_link and number else ["--xdp-sink"]
        stream, viewers = site.stream(number)
        argv = load.arguments(site.link_of(stream.sender.number), stream, viewers[0].ip)
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
    """Combines several loads' results: adds counts, keeps a viewer's least and most copies."""
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


def run(folder: Path, todo: Sequence[Cell]) -> Failures:
    """Measures every cell into `scaling.csv`. Returns the failures of the cells that failed."""
    place = (folder, "scaling")
    return measured_sets(place, ScalingRow, todo, measure, lacking=[XdpRelay.lacks()])


def measure(cell: Cell, probes: list[Probe]) -> list[ScalingRow]:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reprise-bench-")))
        ups: list[Up] = []
        for forwarder in cell.forwarders:
            up = stack.enter_context(_up(cell, forwarder, folder / str(len(ups)), probes))
            # A process that SIGSTOP has stopped cannot end, so the forwarder gets SIGCONT before it
            # is ended.
            stack.callback(up.go_on)
            offer(up, Trial(SETTLE_PER_S, SETTLE_S, "settle"))
            up.stand()
            ups.append(up)
        first_per_s = cell.effort.first_per_s * cell.processors
        effort = replace(cell.effort, first_per_s=first_per_s)
        found = in_turns([(search(effort), up.offer) for up in ups])
        return [_row(cell, *pair) for pair in zip(ups, found, strict=True)]


@contextlib.contextmanager
def _up(cell: Cell, forwarder: Forwarder, folder: Path, probes: list[Probe]) -> Iterator[Up]:
    """Makes a site (namespaces, links) for the streams, and runs a forwarder that copies them."""
    folder.mkdir()
    kind = Queued if forwarder == NATIVE else StreamPerPort
    with kind(cell.processors, cell.fanout) as site, contextlib.ExitStack() as stack:
        rows: list[Row] = []
        streams = [site.stream(number) for number in range(cell.processors)]
        if forwarder == RELAY:
            for number, stream in enumerate(streams):
                place = folder / str(number)
                place.mkdir()
                relay = XdpRelay(site, forwarder.variant, place)
                relay.link_number = number
                rows.append(stack.enter_context(relay))
                relay.subscribe(*stream)
        else:
            switch = P4Replication(site, forwarder.variant, folder)
            # The workers run on the first processors.
            switch.cpus = tuple(range(cell.processors if forwarder == NATIVE else 1))
            if forwarder == NATIVE:
                switch.options = ("--workers", str(cell.processors))
            rows.append(stack.enter_context(switch))
            switch.subscribe_all(streams)
        pids = tuple(pid for row in rows for pid in row.pids)
        yield Up(forwarder, site, cell, pids, probes)


def _row(cell: Cell, up: Up, found: Found) -> ScalingRow:
    how = up.how(found)
    del how["kernel_share"]
    return ScalingRow(
        **asdict(up.forwarder),
        processors=cell.processors,
        fanout=cell.fanout,
        copies_per_s_lossless=found.lossless_per_s,
        copies_per_s_peak=found.peak_per_s,
        set=cell.number,
        **how,
    )
