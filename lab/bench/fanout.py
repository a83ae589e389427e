"""Fan-out: one packet in, n copies out of the same port.

How many copies a second, how late the first and the last one is, what a copy costs.
"""

import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.bench import load
from lab.bench.forwarders import Forwarder, Running, running
from lab.bench.pair import FORWARDER_CPU, Pair

FANOUTS = (1, 4, 16, 64, 256)
FRAME_LEN_BYTES = 1400
STEP_S = 0.4
"""How long each rate is offered: at 20 copies a microsecond some hundred thousand copies."""
PUSH_S = 1.0
OVERDRIVE_COPIES_PER_S = (0.9e6, 1.8e6)
"""Copies a second asked for when looking for the peak: about what a relay can, and twice that."""
LOSSLESS_STEPS = (1.0, 0.96, 0.92, 0.88, 0.84, 0.8, 0.75, 0.7, 0.6, 0.5, 0.35, 0.2, 0.1, 0.05)
"""Parts of the peak, tried from above: the first without loss is the lossless rate."""
LATENCY_RATE_PPS = 360.0
"""1400-byte packets at 4 Mbit/s, the thesis' rate."""
LATENCY_S = 2.0
SETTLE_RATE_PPS = 200.0
SETTLE_S = 0.1


@dataclass(frozen=True, slots=True)
class Row:
    """One row of fanout.csv, and of its raw form, one a round."""

    forwarder: str
    engine: str
    port: str
    wait: str
    fanout: int
    copies_per_s_lossless: float
    copies_per_s_peak: float
    first_copy_p50_us: float
    first_copy_p99_us: float
    last_copy_p50_us: float
    last_copy_p99_us: float
    cpu_ns_per_copy: float


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of all are not above; not a number where there is none."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(forwarder: Forwarder, fanout: int) -> Row:
    """One forwarder at one fan-out, once."""
    with running(forwarder, fanout) as (pair, set_up):
        if forwarder.forwarder == "raw":
            return _pushed(forwarder, pair, fanout)
        load.offer(pair, fanout, SETTLE_RATE_PPS, SETTLE_S, frame_len_bytes=FRAME_LEN_BYTES)
        peak = _peak(pair, fanout)
        lossless, cpu_ns = _lossless(pair, set_up, fanout, peak)
        first, last = _delays(pair, fanout)
    return Row(
        **asdict(forwarder),
        fanout=fanout,
        copies_per_s_lossless=lossless,
        copies_per_s_peak=max(peak, lossless),
        first_copy_p50_us=percentile(first, 0.5),
        first_copy_p99_us=percentile(first, 0.99),
        last_copy_p50_us=percentile(last, 0.5),
        last_copy_p99_us=percentile(last, 0.99),
        cpu_ns_per_copy=cpu_ns,
    )


def _pushed(forwarder: Forwarder, pair: Pair, fanout: int) -> Row:
    rate = load.push(pair, forwarder.port, FORWARDER_CPU, PUSH_S, frame_len_bytes=FRAME_LEN_BYTES)
    none = float("nan")
    return Row(
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


def _peak(pair: Pair, fanout: int) -> float:
    runs = [
        load.offer(pair, fanout, copies / fanout, STEP_S, frame_len_bytes=FRAME_LEN_BYTES)
        for copies in OVERDRIVE_COPIES_PER_S
    ]
    return max(run.copies_per_s for run in runs)


def _lossless(pair: Pair, set_up: Running, fanout: int, peak: float) -> tuple[float, float]:
    """The lossless rate, and the processor time a copy at it, in nanoseconds."""
    for part in LOSSLESS_STEPS:
        before = set_up.cpu_s()
        rate = max(peak, 1.0) * part / fanout
        run = load.offer(pair, fanout, rate, STEP_S, frame_len_bytes=FRAME_LEN_BYTES)
        if run.is_lossless:
            return run.copies_per_s, (set_up.cpu_s() - before) * 1e9 / run.copies
    return 0.0, float("nan")


def _delays(pair: Pair, fanout: int) -> tuple[list[float], list[float]]:
    """Of every packet whose copies all came: the delays of the first and the last, in us."""
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        path = Path(file.name)
        load.offer(
            pair,
            fanout,
            LATENCY_RATE_PPS,
            LATENCY_S,
            frame_len_bytes=FRAME_LEN_BYTES,
            sample_every=1,
            samples=path,
        )
        whole = [sample for sample in load.read_samples(path) if sample.copies == fanout]
    first = [sample.first_copy_ns / 1e3 for sample in whole]
    return first, [sample.last_copy_ns / 1e3 for sample in whole]


def median_rows(rows: Sequence[Row]) -> list[Row]:
    """Rounds of the same forwarder and fan-out become one row: the median of each column."""
    cells: dict[tuple[str, str, str, str, int], list[Row]] = {}
    for row in rows:
        key = (row.forwarder, row.engine, row.port, row.wait, row.fanout)
        cells.setdefault(key, []).append(row)
    merged = []
    for rounds in cells.values():
        first = asdict(rounds[0])
        numbers = {
            name: statistics.median([getattr(row, name) for row in rounds])
            for name, value in first.items()
            if isinstance(value, float)
        }
        merged.append(Row(**{**first, **numbers}))
    return merged
