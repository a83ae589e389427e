"""Forwarders in turns: all compared ones are up, and one runs while the others are stopped.

On a shared machine the processor's speed changes by half from one second to the next, and the place
of a process in memory stays for all its life: two runs of the same forwarder differ by a tenth and
more. So compared forwarders take turns of a fraction of a second, and every set of turns has new
processes.
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
    Search,
    best_without_loss,
    delays,
    peak_of,
    percentile,
    search_steps,
)
from lab.bench.forwarders import Forwarder, Running, running
from lab.bench.results import FanoutRow

TURN_S = 0.1
"""How long a rate is offered: shorter than the processor keeps its speed, mostly."""
TRIES = 12
"""Steps about the limit."""
DELAY_TURN_S = 0.12
"""How long packets are timed: some forty of them."""
DELAY_TURNS = 8
CELL_S = 7.3
"""What one forwarder takes in a set, about."""


@dataclass(slots=True)
class _Runner:
    """A forwarder that has its turn, or stands."""

    meter: Meter
    first_us: list[float]
    last_us: list[float]
    peak: float = 1.0

    @contextlib.contextmanager
    def turn(self) -> Iterator[Meter]:
        """It runs until the end of the block."""
        tell(self.meter.set_up, signal.SIGCONT)
        try:
            yield self.meter
        finally:
            tell(self.meter.set_up, signal.SIGSTOP)

    def row(self) -> FanoutRow:
        """The measured values."""
        best, cpu_ns = best_without_loss(self.meter.probes)
        return FanoutRow(
            **asdict(self.meter.forwarder),
            fanout=self.meter.fanout,
            copies_per_s_lossless=best,
            copies_per_s_peak=max(self.peak, best),
            first_copy_p50_us=percentile(self.first_us, 0.5),
            first_copy_p99_us=percentile(self.first_us, 0.99),
            last_copy_p50_us=percentile(self.last_us, 0.5),
            last_copy_p99_us=percentile(self.last_us, 0.99),
            cpu_ns_per_copy=cpu_ns,
        )


def tell(set_up: Running, what: signal.Signals) -> None:
    """Stops a forwarder's processes, or has them go on."""
    for pid in set_up.pids:
        # One that has ended is told of by what was asked of it.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)


def measure(
    forwarders: Sequence[Forwarder], fanout: int, kept: Callable[[Forwarder], Kept]
) -> list[FanoutRow]:
    """One set of turns; `kept` says where a forwarder's raw samples go."""
    with contextlib.ExitStack() as stack:
        runners: list[_Runner] = []
        for forwarder in forwarders:
            site, set_up = stack.enter_context(running(forwarder, fanout))
            # A stopped process cannot end.
            stack.callback(tell, set_up, signal.SIGCONT)
            load.offer(site, fanout, SETTLE_RATE_PPS, SETTLE_S, frame_len_bytes=FRAME_LEN_BYTES)
            tell(set_up, signal.SIGSTOP)
            place = kept(forwarder)
            meter = Meter(forwarder, site, set_up, fanout, place.probes, TURN_S)
            runners.append(_Runner(meter, [], []))
        _rates(runners)
        for number in range(DELAY_TURNS):
            for runner in runners:
                whole = kept(runner.meter.forwarder).delays
                file = whole.with_name(f"{whole.stem}-turn{number + 1}{whole.suffix}")
                with runner.turn() as meter:
                    first, last = delays(meter.site, fanout, file, DELAY_TURN_S)
                runner.first_us += first
                runner.last_us += last
        return [runner.row() for runner in runners]


def _rates(runners: Sequence[_Runner]) -> None:
    """The peak of each, then a step of each one's search after the other's."""
    for runner in runners:
        with runner.turn() as meter:
            runner.peak = max(peak_of(meter.offer), 1.0)
    searches: list[tuple[_Runner, Search, float]] = []
    for runner in runners:
        steps = search_steps(TRIES)
        searches.append((runner, steps, next(steps)))
    while searches:
        left = []
        for runner, steps, part in searches:
            with runner.turn() as meter:
                is_lossless = meter.offer(runner.peak * part).is_lossless
            with contextlib.suppress(StopIteration):
                left.append((runner, steps, steps.send(is_lossless)))
        searches = left


def kept_in(raw: Path, number: int, fanout: int) -> Callable[[Forwarder], Kept]:
    """Where raw samples go: one place a forwarder, the same whenever it is asked for."""
    places: dict[Forwarder, Kept] = {}

    def kept(forwarder: Forwarder) -> Kept:
        name = "-".join(filter(None, asdict(forwarder).values()))
        file = raw / f"delays-{name}-{fanout}-round{number + 1}.csv"
        return places.setdefault(forwarder, Kept(file))

    return kept
