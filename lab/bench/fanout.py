"""Measures fan-out, n copies of each packet out of one port: rate, delays, processor time."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.bench import load
from lab.bench.forwarders import Forwarder, Running
from lab.bench.load import XDP_SINK
from lab.bench.noise import Listener
from lab.bench.search import Found, Trial
from lab.bench.trials import Probe, Runner
from lab.csvs import numbers_of
from lab.results.benchmarks import ALONE, FanoutRow
from lab.results.statistics import percentile_or_nan
from lab.rows import in_kernel
from lab.sites import OnePort

FANOUTS = (1, 4, 16, 64, 256)
PUSH_S, PUSHES = 0.2, 8
"""How long and how often frames are pushed as fast as possible. The median is the result."""
LATENCY_RATE_PPS = 360.0
"""The packet rate of 4 Mbit/s in 1400-byte packets, a stream of the thesis (docs/lab.md names
it)."""


@dataclass(slots=True)
class Meter(Runner):
    """Makes trials of one running forwarder, and keeps the results."""

    forwarder: Forwarder
    site: OnePort
    set_up: Running
    fanout: int
    probes: list[Probe]
    sink: str = XDP_SINK

    def _once(self, trial: Trial) -> Probe:
        listener = Listener()
        before_s, ticks = self.set_up.cpu_s(), self.set_up.ticks()
        run = load.offer(
            self.site,
            self.fanout,
            trial.per_s / self.fanout,
            trial.seconds,
            is_in_kernel=self.forwarder.is_in_kernel,
            sink=self.sink,
        )
        cpu_s = self.set_up.cpu_s() - before_s
        share = self.set_up.ticks().since(ticks).kernel_share
        what = asdict(self.forwarder)
        return Probe(what, trial, run, listener.noise(), share, cpu_s, self.sink)


def cpu_ns_per_copy(wait: str, probe: Probe | None) -> float:
    """The processor time per copy, in nanoseconds.

    A forwarder that spins occupies its processor all the time, also before and after the load, so
    its time per copy is the time between two copies. The same holds if the kernel forwards on the
    sender's processor; then the time includes the sender's own work.
    """
    if probe is None or not probe.run.copies or probe.cpu_s is None:
        return math.nan
    if wait in ("spin", in_kernel.SHARED):
        return 1e9 / probe.run.copies_per_s
    return probe.cpu_s * 1e9 / probe.run.copies


def row_of(
    meter: Meter, found: Found, number: int, first_us: Sequence[float], last_us: Sequence[float]
) -> FanoutRow:
    return FanoutRow(
        **asdict(meter.forwarder),
        fanout=meter.fanout,
        copies_per_s_lossless=found.lossless_per_s,
        copies_per_s_peak=found.peak_per_s,
        first_copy_p50_us=percentile_or_nan(first_us, 50),
        first_copy_p99_us=percentile_or_nan(first_us, 99),
        last_copy_p50_us=percentile_or_nan(last_us, 50),
        last_copy_p99_us=percentile_or_nan(last_us, 99),
        cpu_ns_per_copy=cpu_ns_per_copy(meter.forwarder.wait, meter.probe_of(found.decided)),
        sink=meter.sink,
        set=number,
        **meter.how(found),
    )


def pushed(forwarder: Forwarder, site: OnePort, cpu: int) -> FanoutRow:
    """Measures the limit of all forwarders: one processor pushes frames into a veth pair."""
    rate, none = load.push(site, forwarder.port, cpu, PUSHES, PUSH_S), math.nan
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
    """Offers packets; returns the delay of each packet's first copy and of its last copy, in us.

    The file `kept` gets a sample of each packet. The result leaves out packets that lack a copy.
    """
    load.offer(site, fanout, LATENCY_RATE_PPS, seconds, sample_every=1, samples=kept)
    whole = [one for one in numbers_of(load.Sample, kept) if one.copies == fanout]
    return [one.first_copy_ns / 1e3 for one in whole], [one.last_copy_ns / 1e3 for one in whole]
