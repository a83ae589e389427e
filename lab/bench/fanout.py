"""Fan-out: one packet in, n copies out of the same port.

It measures the rate of copies, the delay of the first and the last one, and the cost of a copy.
"""

import math
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from lab.bench import load
from lab.bench.experiment import median
from lab.bench.forwarders import Forwarder, Running, running
from lab.bench.load import Run
from lab.bench.results import FanoutRow
from lab.rows import in_kernel
from lab.sites import SFU_CPU, OnePort

FANOUTS = (1, 4, 16, 64, 256)
FRAME_LEN_BYTES = 1400
STEP_S = 0.3
"""How long each rate is offered: at a copy a microsecond some hundred thousand copies."""
PUSH_S, PUSHES = 0.2, 8
"""How long and how often is pushed: the best counts, as with rates without loss."""
FIRST_OFFER_COPIES_PER_S = 1.5e6
"""More than any path in user space carried here; what does not suffice is doubled."""
OFFERS_MAX = 3
BEYOND_WHAT_CAME = 1.2
"""A forwarder that loses much may carry more when it is offered just too much."""
KEPT_UP = 0.97
DOWN = (1.0, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1, 0.05)
"""Parts of the peak, tried from the top until one comes without loss."""
COARSE, FINE = 1.08, 1.03
"""From there a step up after a try without loss and one down after another; the coarse one until
the first that fails."""
TRIES = 4
"""How many such steps."""
LATENCY_RATE_PPS = 360.0
"""1400-byte packets at 4 Mbit/s, the thesis' rate."""
LATENCY_S = 1.0
SETTLE_RATE_PPS = 200.0
SETTLE_S = 0.1


Search = Generator[float, bool, float]
"""Parts of the peak to be tried, whether each was without loss, what was found."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One offered rate, and its result."""

    forwarder: Forwarder
    offered_packets_per_s: float
    run: Run
    cpu_s: float

    def cells(self) -> dict[str, object]:
        """Its columns in the raw samples."""
        rate = {"offered_packets_per_s": self.offered_packets_per_s}
        return {**asdict(self.forwarder), **rate, **asdict(self.run), "cpu_s": self.cpu_s}


@dataclass(slots=True)
class Kept:
    """The raw samples of a forwarder at one fan-out: every rate tried, every packet's delay."""

    delays: Path
    probes: list[Probe] = field(default_factory=list)


@dataclass(slots=True)
class Meter:
    """Offers rates to one running forwarder, and keeps the results."""

    forwarder: Forwarder
    site: OnePort
    set_up: Running
    fanout: int
    probes: list[Probe]
    step_s: float = STEP_S

    def offer(self, copies_per_s: float, *, is_first: bool = True) -> Run:
        """Offers packets for a short while."""
        rate_pps = copies_per_s / self.fanout
        before_s = self.set_up.cpu_s()
        run = load.offer(
            self.site,
            self.fanout,
            rate_pps,
            self.step_s,
            frame_len_bytes=FRAME_LEN_BYTES,
            is_in_kernel=self.forwarder.is_in_kernel,
        )
        cpu_s = self.set_up.cpu_s() - before_s
        self.probes.append(Probe(self.forwarder, rate_pps, run, cpu_s))
        if run.loss >= 0.0 or not is_first:
            return run
        # Copies of an earlier offer came: queues of a slow forwarder take seconds to drain.
        return self.offer(copies_per_s, is_first=False)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all are not above; not a number where there is none."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def measure(forwarder: Forwarder, fanout: int, kept: Kept | None = None) -> FanoutRow:
    """One forwarder at one fan-out, once."""
    with (
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as folder,
        running(forwarder, fanout) as (site, set_up),
    ):
        kept = kept or Kept(Path(folder) / "delays.csv")
        if forwarder.row == "raw":
            return _pushed(forwarder, site, fanout)
        load.offer(site, fanout, SETTLE_RATE_PPS, SETTLE_S, frame_len_bytes=FRAME_LEN_BYTES)
        meter = Meter(forwarder, site, set_up, fanout, kept.probes)
        peak = max(peak_of(meter.offer), 1.0)
        search(lambda part: meter.offer(peak * part).is_lossless)
        first, last = delays(site, fanout, kept.delays, LATENCY_S)
        best, cpu_ns = best_without_loss(kept.probes)
    return FanoutRow(
        **asdict(forwarder),
        fanout=fanout,
        copies_per_s_lossless=best,
        copies_per_s_peak=max(peak, best),
        first_copy_p50_us=percentile(first, 0.5),
        first_copy_p99_us=percentile(first, 0.99),
        last_copy_p50_us=percentile(last, 0.5),
        last_copy_p99_us=percentile(last, 0.99),
        cpu_ns_per_copy=cpu_ns,
    )


def _pushed(forwarder: Forwarder, site: OnePort, fanout: int) -> FanoutRow:
    rate = load.push(site, forwarder.port, SFU_CPU, PUSHES, PUSH_S)
    none = float("nan")
    return FanoutRow(
        **asdict(forwarder),
        fanout=fanout,
        copies_per_s_lossless=rate,
        copies_per_s_peak=rate,
        first_copy_p50_us=none,
        first_copy_p99_us=none,
        last_copy_p50_us=none,
        last_copy_p99_us=none,
        cpu_ns_per_copy=1e9 / rate,
    )


def peak_of(offer: Callable[[float], Run]) -> float:
    """The most copies a second that came: more is offered until not all of it comes."""
    copies_per_s, came = FIRST_OFFER_COPIES_PER_S, 0.0
    for _ in range(OFFERS_MAX):
        run = offer(copies_per_s)
        came = max(came, run.copies_per_s)
        sent_copies_per_s = run.sent * run.n_viewers / run.seconds
        if run.copies_per_s < KEPT_UP * sent_copies_per_s:
            return max(came, offer(BEYOND_WHAT_CAME * run.copies_per_s).copies_per_s)
        if sent_copies_per_s < KEPT_UP * copies_per_s:
            # The load can send no faster.
            return came
        copies_per_s *= 2
    return came


def search(is_lossless: Callable[[float], bool], tries: int = TRIES) -> float:
    """The highest part of the peak without loss, about; 0 where even the smallest lost some."""
    steps = search_steps(tries)
    part = next(steps)
    while True:
        try:
            part = steps.send(is_lossless(part))
        except StopIteration as end:
            return float(end.value)


def search_steps(tries: int) -> Search:
    """The same step by step.

    A stolen moment of the processor fails a try at a rate that the forwarder can carry, so rates
    about the limit are tried again and again.
    """
    good = 0.0
    for part in DOWN:
        if (yield part):
            good = part
            break
    if not good:
        return good
    part, step, is_up = good, COARSE, True
    for _ in range(tries):
        part = part * step if is_up else part / step
        is_up = yield part
        if is_up:
            good = max(good, part)
        else:
            step = FINE
    return good


def best_without_loss(probes: Sequence[Probe]) -> tuple[float, float]:
    """The highest rate without loss, and the processor time a copy at it, in nanoseconds.

    One that spins has its processor for itself, before and after the load too: what it takes is the
    time between two copies. So is what the kernel takes on the sender's processor, and the sender's
    own work is in it.
    """
    lossless = [probe for probe in probes if probe.run.is_lossless]
    if not lossless:
        return 0.0, float("nan")
    best = max(lossless, key=lambda probe: probe.run.copies_per_s)
    rate = best.run.copies_per_s
    if best.forwarder.wait in ("spin", in_kernel.SHARED):
        return rate, 1e9 / rate
    return rate, best.cpu_s * 1e9 / best.run.copies


def delays(
    site: OnePort, fanout: int, kept: Path, seconds: float
) -> tuple[list[float], list[float]]:
    """Of every packet whose copies all came: the delays of the first and the last, in us."""
    load.offer(
        site,
        fanout,
        LATENCY_RATE_PPS,
        seconds,
        frame_len_bytes=FRAME_LEN_BYTES,
        sample_every=1,
        samples=kept,
    )
    whole = [sample for sample in load.read_samples(kept) if sample.copies == fanout]
    first = [sample.first_copy_ns / 1e3 for sample in whole]
    return first, [sample.last_copy_ns / 1e3 for sample in whole]


def median_rows(rows: Sequence[FanoutRow]) -> list[FanoutRow]:
    """Rounds of the same forwarder and fan-out become one row: the median of each column."""
    cells: dict[tuple[str, str, str, str, int], list[FanoutRow]] = {}
    for row in rows:
        key = (row.row, row.engine, row.port, row.wait, row.fanout)
        cells.setdefault(key, []).append(row)
    merged = []
    for rounds in cells.values():
        first = asdict(rounds[0])
        numbers = {
            name: median([getattr(row, name) for row in rounds])
            for name, value in first.items()
            if isinstance(value, float)
        }
        merged.append(FanoutRow(**{**first, **numbers}))
    return merged
