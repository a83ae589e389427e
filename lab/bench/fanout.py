"""Fan-out: one packet in, n copies out of the same port.

It measures the rate of copies, the delay of the first and the last one, and the cost of a copy.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from lab.bench import load
from lab.bench.experiment import median
from lab.bench.forwarders import Forwarder, Running
from lab.bench.load import XDP_SINK, Run
from lab.bench.noise import Listener, Noise
from lab.bench.results import ALONE, FanoutRow
from lab.bench.search import Found, Trial
from lab.rows import in_kernel
from lab.sites import OnePort

Row = TypeVar("Row")
FANOUTS = (1, 4, 16, 64, 256)
FRAME_LEN_BYTES = 1400
PUSH_S, PUSHES = 0.2, 8
"""How long and how often is pushed, as fast as can be: the median counts."""
LATENCY_RATE_PPS = 360.0
"""1400-byte packets at 4 Mbit/s, the thesis' rate."""
SETTLE_RATE_PPS = 200.0
SETTLE_S = 0.1
REPEATS_MAX = 5
"""How often a trial is repeated that others disturbed ..."""
REPEATS_OF_ALL_S = 150.0
"""... while all that is repeated of a forwarder in a set takes no longer than this."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One trial, and its result."""

    forwarder: Forwarder
    trial: Trial
    sink: str
    run: Run
    cpu_s: float
    kernel_share: float
    """Of that time."""
    noise: Noise

    @property
    def is_void(self) -> bool:
        """Others used the processors."""
        return self.noise.spoils(self.run.seconds)

    def cells(self) -> dict[str, object]:
        """Its columns in the raw samples."""
        what = {"step": self.trial.step, "sink": self.sink}
        rate = {"offered_copies_per_s": self.trial.per_s}
        beside = {"cpu_s": self.cpu_s, "kernel_share": self.kernel_share, **asdict(self.noise)}
        return {**asdict(self.forwarder), **what, **rate, **asdict(self.run), **beside}


@dataclass(slots=True)
class Kept:
    """The raw samples of a forwarder at one fan-out: every rate tried, every packet's delay."""

    delays: Path
    probes: list[Probe] = field(default_factory=list)


@dataclass(slots=True)
class Meter:
    """Makes trials of one running forwarder, and keeps the results."""

    forwarder: Forwarder
    site: OnePort
    set_up: Running
    fanout: int
    probes: list[Probe]
    sink: str = XDP_SINK
    _repeated_s: float = 0.0

    def offer(self, trial: Trial) -> Run:
        """Makes a trial; again where it is void."""
        for _ in range(REPEATS_MAX):
            probe = self._once(trial)
            # Or copies of an earlier one came: queues of a slow forwarder take seconds to drain.
            is_void = probe.is_void or probe.run.loss < 0.0
            if not is_void or self._repeated_s + trial.seconds > REPEATS_OF_ALL_S:
                break
            self._repeated_s += trial.seconds
        return probe.run

    def _once(self, trial: Trial) -> Probe:
        listener = Listener()
        before_s, ticks = self.set_up.cpu_s(), self.set_up.ticks()
        run = load.offer(
            self.site,
            self.fanout,
            trial.per_s / self.fanout,
            trial.seconds,
            frame_len_bytes=FRAME_LEN_BYTES,
            is_in_kernel=self.forwarder.is_in_kernel,
            sink=self.sink,
        )
        cpu_s = self.set_up.cpu_s() - before_s
        share = self.set_up.ticks().since(ticks).kernel_share
        probe = Probe(self.forwarder, trial, self.sink, run, cpu_s, share, listener.noise())
        self.probes.append(probe)
        return probe

    def probe_of(self, run: Run | None) -> Probe | None:
        """The probe of a run."""
        return next((one for one in reversed(self.probes) if one.run is run), None)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all are not above; not a number where there is none."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def cpu_ns_per_copy(probe: Probe | None) -> float:
    """The processor time a copy, in nanoseconds.

    One that spins has its processor for itself, before and after the load too: what it takes is the
    time between two copies. So is what the kernel takes on the sender's processor, and the sender's
    own work is in it.
    """
    if probe is None or not probe.run.copies:
        return float("nan")
    if probe.forwarder.wait in ("spin", in_kernel.SHARED):
        return 1e9 / probe.run.copies_per_s
    return probe.cpu_s * 1e9 / probe.run.copies


def row_of(
    meter: Meter, found: Found, number: int, first_us: Sequence[float], last_us: Sequence[float]
) -> FanoutRow:
    """What was measured of a forwarder in a set."""
    decided = meter.probe_of(found.decided)
    return FanoutRow(
        **asdict(meter.forwarder),
        fanout=meter.fanout,
        copies_per_s_lossless=found.lossless_per_s,
        copies_per_s_peak=found.peak_per_s,
        first_copy_p50_us=percentile(first_us, 0.5),
        first_copy_p99_us=percentile(first_us, 0.99),
        last_copy_p50_us=percentile(last_us, 0.5),
        last_copy_p99_us=percentile(last_us, 0.99),
        cpu_ns_per_copy=cpu_ns_per_copy(decided),
        sink=meter.sink,
        set=number,
        trial_s=found.trial_s,
        bound_by=found.bound_by,
        is_peak_least=int(found.is_peak_least),
        late_share=found.late_share,
        kernel_share=decided.kernel_share if decided else math.nan,
        is_disturbed=int(decided is not None and decided.is_void),
    )


def pushed(forwarder: Forwarder, site: OnePort, cpu: int) -> FanoutRow:
    """The limit: what one processor pushes into the same pair, forwarding nothing."""
    rate, none = load.push(site, forwarder.port, cpu, PUSHES, PUSH_S), float("nan")
    return FanoutRow(
        **asdict(forwarder),
        fanout=1,
        copies_per_s_lossless=rate,
        copies_per_s_peak=rate,
        first_copy_p50_us=none,
        first_copy_p99_us=none,
        last_copy_p50_us=none,
        last_copy_p99_us=none,
        cpu_ns_per_copy=1e9 / rate,
        sink=XDP_SINK,
        trial_s=PUSH_S,
        set=ALONE,
    )


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
    """Rounds of the same forwarder, fan-out and sink become one row: the median of each column."""
    cells: dict[tuple[object, ...], list[FanoutRow]] = {}
    for row in rows:
        key = (row.row, row.engine, row.port, row.wait, row.fanout, row.sink)
        cells.setdefault(key, []).append(row)
    return [median_row(rounds) for rounds in cells.values()]


def median_row(rounds: Sequence[Row]) -> Row:
    """One row of several of a kind; what was bound in several ways says all of them."""
    first: dict[str, Any] = asdict(rounds[0])  # type: ignore[call-overload]
    changed: dict[str, Any] = {
        name: median([getattr(row, name) for row in rounds])
        for name, value in first.items()
        if isinstance(value, float)
    }
    changed["sets"] = len(rounds)
    changed["bound_by"] = " ".join(sorted({row.bound_by for row in rounds} - {""}))  # type: ignore[attr-defined]
    for name in ("is_peak_least", "is_disturbed"):
        changed[name] = max(getattr(row, name) for row in rounds)
    return cast("Row", replace(cast("Any", rounds[0]), **changed))
