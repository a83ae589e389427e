"""Forwarders in turns: all compared ones are up, and one runs while the others are stopped.

On a shared machine the processor's speed changes by half from one second to the next, and the place
of a process in memory stays for all its life: two runs of the same forwarder differ by a tenth and
more. So compared forwarders take turns, a trial each, and every set of turns has new processes. One
that is compared with nobody is measured in the same way, alone.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.bench import load
from lab.bench.fanout import (
    FRAME_LEN_BYTES,
    SETTLE_RATE_PPS,
    SETTLE_S,
    Kept,
    Meter,
    delays,
    row_of,
)
from lab.bench.forwarders import Forwarder, Running, running
from lab.bench.load import XDP_SINK, Run
from lab.bench.results import ALONE, FanoutRow
from lab.bench.search import FULL, Effort, Trial, in_turns, search

DELAY_TURN_S = 0.12
"""How long packets are timed: some forty of them."""
DELAY_TURNS = 8
UP_S = 3.0
"""What starting a forwarder takes, and its delays, about."""


def planned_s(effort: Effort) -> float:
    """What one forwarder takes in a set, about."""
    return UP_S + effort.planned_s


@dataclass(frozen=True, slots=True)
class Set:
    """One set of turns."""

    fanout: int
    number: int = 0
    sink: str = XDP_SINK
    effort: Effort = FULL


@dataclass(slots=True)
class _Runner:
    """A forwarder that has its turn, or stands."""

    meter: Meter
    first_us: list[float]
    last_us: list[float]

    @contextlib.contextmanager
    def turn(self) -> Iterator[Meter]:
        """It runs until the end of the block."""
        tell(self.meter.set_up, signal.SIGCONT)
        try:
            yield self.meter
        finally:
            tell(self.meter.set_up, signal.SIGSTOP)

    def offer(self, trial: Trial) -> Run:
        """It runs for one trial."""
        with self.turn() as meter:
            return meter.offer(trial)


def tell(set_up: Running, what: signal.Signals) -> None:
    """Stops a forwarder's processes, or has them go on."""
    for pid in set_up.pids:
        # One that has ended is told of by what was asked of it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


def measure(
    forwarders: Sequence[Forwarder], of: Set, kept: Callable[[Forwarder], Kept]
) -> list[FanoutRow]:
    """One set of turns; `kept` says where a forwarder's raw samples go."""
    with contextlib.ExitStack() as stack:
        runners: list[_Runner] = []
        for forwarder in forwarders:
            site, set_up = stack.enter_context(running(forwarder, of.fanout))
            # A stopped process cannot end.
            stack.callback(tell, set_up, signal.SIGCONT)
            load.offer(site, of.fanout, SETTLE_RATE_PPS, SETTLE_S, frame_len_bytes=FRAME_LEN_BYTES)
            tell(set_up, signal.SIGSTOP)
            probes = kept(forwarder).probes
            meter = Meter(forwarder, site, set_up, of.fanout, probes, of.sink)
            runners.append(_Runner(meter, [], []))
        found = in_turns([(search(of.effort), runner.offer) for runner in runners])
        _time(runners, of.fanout, kept)
        number = of.number if len(runners) > 1 else ALONE
        return [
            row_of(runner.meter, one, number, runner.first_us, runner.last_us)
            for runner, one in zip(runners, found, strict=True)
        ]


def _time(runners: Sequence[_Runner], fanout: int, kept: Callable[[Forwarder], Kept]) -> None:
    """Delays without load, in turns."""
    for number in range(DELAY_TURNS):
        for runner in runners:
            whole = kept(runner.meter.forwarder).delays
            file = whole.with_name(f"{whole.stem}-turn{number + 1}{whole.suffix}")
            with runner.turn() as meter:
                first, last = delays(meter.site, fanout, file, DELAY_TURN_S)
            runner.first_us += first
            runner.last_us += last


def kept_in(raw: Path, of: Set) -> Callable[[Forwarder], Kept]:
    """Where raw samples go: one place a forwarder, the same whenever it is asked for."""
    places: dict[Forwarder, Kept] = {}

    def kept(forwarder: Forwarder) -> Kept:
        name = "-".join(filter(None, asdict(forwarder).values()))
        file = raw / f"delays-{name}-{of.fanout}-{of.sink}-round{of.number + 1}.csv"
        return places.setdefault(forwarder, Kept(file))

    return kept
