"""Measures forwarders in turns. In a turn one forwarder runs, and all other forwarders are stopped.

Two runs of the same forwarder differ by a tenth and more: on a shared machine the processor's speed
can change by half from one second to the next, and the place of a process in memory affects its
speed for as long as the process runs. Therefore all compared forwarders are started at once, the
trials of the forwarders alternate, and every set of turns starts new processes. A turn consists of
one trial. A forwarder that is compared with no other is measured in the same way, alone.
"""

import contextlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.bench import load
from lab.bench.fanout import Meter, delays, row_of
from lab.bench.forwarders import RAW as NO_FORWARDER
from lab.bench.forwarders import Forwarder, running
from lab.bench.load import XDP_SINK, Run
from lab.bench.search import FULL, Effort, Trial, in_turns, search
from lab.bench.trials import Probe
from lab.results.benchmarks import ALONE, FanoutRow

DELAY_TURN_S = 0.12
"""The duration of a turn that measures delays, which is enough for about forty packets."""
DELAY_TURNS = 8
UP_S = 3.0
"""About how long it takes to start a forwarder and to measure its delays."""
PUSH_CELL_S = 4.0


def planned_s(effort: Effort) -> float:
    """About how long one forwarder takes in a set."""
    return UP_S + effort.planned_s


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of turns: the forwarders that are compared with each other at a fan-out."""

    round: int
    forwarders: tuple[Forwarder, ...]
    fanout: int
    effort: Effort = FULL
    sink: str = XDP_SINK

    @property
    def planned_s(self) -> float:
        if self.forwarders[0].row == NO_FORWARDER:
            return PUSH_CELL_S
        return planned_s(self.effort) * len(self.forwarders)

    def __str__(self) -> str:
        names = " beside ".join(str(forwarder) for forwarder in self.forwarders)
        sink = f", sink {self.sink}" if self.sink != XDP_SINK else ""
        return f"{names}, {self.fanout} copies{sink}"


@dataclass(slots=True)
class _Runner:
    meter: Meter
    first_us: list[float] = field(default_factory=list)
    last_us: list[float] = field(default_factory=list)

    def offer(self, trial: Trial) -> Run:
        with self.meter.set_up.turn():
            return self.meter.offer(trial)


def measure(cell: Cell, raw: Path, probes: list[Probe]) -> list[FanoutRow]:
    """Measures one set. Adds the trials to `probes`, and writes the delays to files in `raw`."""
    raw.mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        runners: list[_Runner] = []
        for forwarder in cell.forwarders:
            site, set_up = stack.enter_context(running(forwarder, cell.fanout))
            # A process that SIGSTOP has stopped cannot end, so the forwarder gets SIGCONT before it
            # is ended.
            stack.callback(set_up.go_on)
            load.settle(site, cell.fanout)
            set_up.stand()
            meter = Meter(forwarder, site, set_up, cell.fanout, probes, cell.sink)
            runners.append(_Runner(meter))
        found = in_turns([(search(cell.effort), runner.offer) for runner in runners])
        _time(runners, cell, raw)
        number = cell.round if len(runners) > 1 else ALONE
        return [
            row_of(runner.meter, one, number, runner.first_us, runner.last_us)
            for runner, one in zip(runners, found, strict=True)
        ]


def _time(runners: Sequence[_Runner], cell: Cell, raw: Path) -> None:
    """Measures the delays of all forwarders at a low rate, one forwarder after the other."""
    for number in range(1, DELAY_TURNS + 1):
        for runner in runners:
            name = "-".join(filter(None, asdict(runner.meter.forwarder).values()))
            where = f"{cell.fanout}-{cell.sink}-round{cell.round + 1}-turn{number}"
            kept = raw / f"delays-{name}-{where}.csv"
            with runner.meter.set_up.turn():
                first, last = delays(runner.meter.site, cell.fanout, kept, DELAY_TURN_S)
            runner.first_us += first
            runner.last_us += last
