"""Computes the rows of `runs.csv`, `viewers.csv` and `summary.csv` from the samples. No I/O.

- The delay of a packet is the time from right before it was handed to the hosts' interface until
  the kernel's time stamp of its last copy at this interface. The first copy's delay has columns of
  its own. A packet without copies has no delay.
- `avg_copy_delay_s` is the average over the delays of all copies, not only last ones.
- Delays are measured on samples: on all packets, or on every n-th packet of each stream
  (`sample_every`). Copies, duplicates and disorder are counted for all packets.
- Lost in: samples without any copy. Lost out: frames that came and are not copies. Copies missing:
  pairs of a packet and a viewer that did not get a copy of the packet. Strangers: copies to
  participants that should not get them.
- True bitrate: the volume of all packets divided by the time from the first to the last.
- Volumes are whole frames without FCS.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from lab.experiment import Experiment, Part, Place
from lab.meter import Sample, Slot
from lab.offered import copies_due, copies_missing
from lab.results.folder import Run
from lab.results.statistics import change_pct, mean, percentile

WARM_UP_PACKETS = 10
"""How many packets at the start of a run count as warm-up.

The column `warm_up_avg_delay_s` has the average of their delays. All other columns include these
packets, too.
"""
OUTLIER_SPREADS = 3.0
"""A delay is an outlier if it is more than this many interquartile ranges above the third quartile:
Tukey's "far out"."""
BOOTSTRAPS = 1_000
BOOTSTRAP_BLOCK = 10
"""How many successive packets the bootstrap draws together.

Packets are drawn in such blocks, because what delays one packet also delays the next packets.
"""
CONFIDENCE_PCT = 95
NS = 1e9

Delays = npt.NDArray[np.float64]
_FORMS = (("_s", ".9f"), ("_pct", ".4f"), ("_kbps", ".3f"), ("_us", ".3f"), ("_packet", ".3f"))


class Placed:
    """A line of results that belongs to a place: a row (an SFU) in a variant under a load."""

    __slots__ = ()
    row: str
    engine: str
    port: str
    part: str
    topology: str
    wait: str

    @property
    def key(self) -> tuple[str, str, str, str, str, str]:
        return (self.part, self.topology, self.row, self.engine, self.port, self.wait)

    @property
    def variant(self) -> str:
        """The variant's name for people; empty if the row has no variants."""
        return " ".join(word for word in (self.engine, self.port, self.wait) if word)


@dataclass(frozen=True, slots=True)
class RunRow(Placed):
    """A row of `runs.csv`, with its columns in the order of these fields.

    The end of a column's name tells its unit, such as `_s` for seconds.
    """

    row: str
    engine: str
    port: str
    bitrate_mbps: float
    packet_size_bytes: float
    viewers: int
    run: int
    duration_s: float
    min_delay_s: float | None
    max_delay_s: float | None
    avg_delay_s: float | None
    stddev_delay_s: float | None
    packets_in: int
    packets_out: int
    packets_lost_in: int
    packets_lost_out: int
    volume_in_kbit: float
    volume_out_kbit: float
    avg_delay_change_vs_previous_run_pct: float | None
    true_bitrate_kbps: float
    repeats: int
    copies_missing: int
    min_first_copy_delay_s: float | None
    avg_first_copy_delay_s: float | None
    p99_delay_s: float | None
    sfu_cpu_s: float
    part: str
    topology: str
    wait: str
    senders: int
    streams: int
    sample_every: int
    first_copy_p50_s: float | None
    first_copy_p95_s: float | None
    first_copy_p99_s: float | None
    first_copy_p999_s: float | None
    last_copy_p50_s: float | None
    last_copy_p95_s: float | None
    last_copy_p999_s: float | None
    duplicates: int
    misordered: int
    strangers: int
    viewers_spread_pct: float | None
    """The percentage by which the slowest viewer's average delay is above the fastest viewer's."""
    fairness: float | None
    """Jain's index over the shares that viewers got of their due copies: 1 is fair."""
    jitter_avg_s: float | None
    """The jitter of RFC 3550, section 6.4.1, averaged over all streams at all viewers."""
    jitter_max_s: float | None
    sfu_cpu_us_per_packet: float
    """The processor time of the SFU's processes, including their system calls."""
    kernel_cpu_us_per_packet: float | None
    """The system calls' part of `sfu_cpu_us_per_packet`, plus the time in interrupts.

    The system calls' part is estimated from the kernel's own samples.
    """
    empty_loop_p999_us: float
    """How long the machine interrupts a process that runs alone, measured as gaps in an empty loop
    that ran right before the run."""
    empty_loop_max_us: float
    warm_up_avg_delay_s: float | None
    outliers: int
    late_max_s: float
    """The longest time by which a packet was sent late."""
    is_broken: bool
    avg_copy_delay_s: float | None
    """The average delay of all copies, not only of packets' last copies."""


@dataclass(frozen=True, slots=True)
class ViewerRow(Placed):
    """A row of `viewers.csv`: a participant in a run, over all streams that it views."""

    row: str
    engine: str
    port: str
    part: str
    topology: str
    wait: str
    viewers: int
    run: int
    participant: int
    copies_due: int
    copies: int
    duplicates: int
    misordered: int
    avg_delay_s: float | None
    min_delay_s: float | None
    max_delay_s: float | None
    jitter_s: float | None


@dataclass(frozen=True, slots=True)
class SummaryRow(Placed):
    """A row of `summary.csv`: all runs of an SFU with the same number of viewers.

    A packet's delay is that of its last copy, unless the column's name says otherwise.
    """

    row: str
    engine: str
    port: str
    bitrate_mbps: float
    viewers: int
    min_delay_s: float | None
    max_delay_s: float | None
    avg_delay_s: float | None
    avg_delay_change_vs_previous_viewers_pct: float | None
    stddev_of_avg_delay_between_runs_s: float | None
    runs: int
    avg_packets_lost_in: float
    avg_packets_lost_out: float
    avg_copies_missing: float
    part: str
    topology: str
    wait: str
    avg_delay_low_s: float | None
    """The 95 % interval of the mean, by bootstrap over runs and blocks of their packets."""
    avg_delay_high_s: float | None
    first_copy_avg_s: float | None
    p50_delay_s: float | None
    p95_delay_s: float | None
    p99_delay_s: float | None
    p999_delay_s: float | None
    jitter_avg_s: float | None
    duplicates: int
    misordered: int
    strangers: int
    loss_pct: float
    """The share of missing copies among all that were due."""
    sfu_cpu_us_per_packet: float
    kernel_cpu_us_per_packet: float | None
    is_broken: bool
    avg_copy_delay_s: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    runs: tuple[RunRow, ...]
    viewers: tuple[ViewerRow, ...]
    summaries: tuple[SummaryRow, ...]


def measured(experiment: Experiment, runs: Iterable[Run]) -> Measured:
    rows: list[RunRow] = []
    viewers: list[ViewerRow] = []
    summaries: list[SummaryRow] = []
    for _, group in groupby(runs, key=lambda run: (run.cell.place, run.cell.participants)):
        members = list(group)
        part = experiment.part(members[0].cell.place.part)
        own: list[RunRow] = []
        for run in members:
            of_viewers = viewer_rows(part, run)
            viewers += of_viewers
            own.append(run_row(part, run, of_viewers, rows[-1] if rows else None))
            rows.append(own[-1])
        summaries.append(_summary(own, members, summaries[-1] if summaries else None))
    return Measured(tuple(rows), tuple(viewers), tuple(summaries))


def last_copies_s(samples: Sequence[Sample]) -> Delays:
    """For each sample with copies, in order, the delay in seconds of the copy that came last."""
    return np.array([one.last_copy_ns / NS for one in samples if one.copies], dtype=np.float64)


def n_outliers(delays: Delays) -> int:
    """How many delays are far above the others."""
    if not len(delays):
        return 0
    low, high = np.percentile(delays, (25, 75))
    return int(np.count_nonzero(delays > high + OUTLIER_SPREADS * (high - low)))


def bootstrap_mean(of_runs: Sequence[Delays], seed: int = 1) -> tuple[float | None, float | None]:
    """The confidence interval of the mean over all runs, by bootstrap.

    Returns `None, None` if there are no delays.
    """
    means = bootstrapped_means(of_runs, seed)
    if means is None:
        return None, None
    tail = (100 - CONFIDENCE_PCT) / 2
    low, high = np.percentile(means, (tail, 100 - tail))
    return float(low), float(high)


def bootstrapped_means(of_runs: Sequence[Delays], seed: int) -> Delays | None:
    """Returns means over all runs after resampling the runs, and blocks of packets in each run.

    Both runs and blocks are resampled, because runs differ for reasons that their packets do not
    show: where a process' memory lies, what else the machine does. If runs do not differ at all,
    the bounds are too wide, not too narrow.
    """
    runs = [run for run in of_runs if len(run)]
    if not runs:
        return None
    draw = np.random.default_rng(seed)
    sums = np.zeros(BOOTSTRAPS)
    for _ in runs:
        chosen = draw.integers(0, len(runs), size=BOOTSTRAPS)
        for idx, run in enumerate(runs):
            here = np.flatnonzero(chosen == idx)
            sums[here] += _drawn_means(run, len(here), draw)
    means: Delays = sums / len(runs)
    return means


def _drawn_means(run: Delays, n: int, draw: np.random.Generator) -> Delays:
    """Returns `n` means of a run, each over newly drawn blocks of the run."""
    blocks = [run[at : at + BOOTSTRAP_BLOCK] for at in range(0, len(run), BOOTSTRAP_BLOCK)]
    drawn = draw.integers(0, len(blocks), size=(n, len(blocks)))
    sums = np.array([block.sum() for block in blocks])[drawn].sum(axis=1)
    means: Delays = sums / np.array([len(block) for block in blocks])[drawn].sum(axis=1)
    return means


def viewer_rows(part: Part, run: Run) -> list[ViewerRow]:
    cell = run.cell
    due = _due(part, run)
    due_of: Counter[int] = Counter()
    for (_, viewer), n in due.items():
        due_of[viewer] += n
    wanted_of: defaultdict[int, list[Slot]] = defaultdict(list)
    for slot in run.seen.slots:
        if (slot.stream, slot.participant) in due:
            wanted_of[slot.participant].append(slot)
    rows = []
    for participant in range(1, cell.participants + 1):
        n_due, wanted = due_of[participant], wanted_of[participant]
        timed = [slot for slot in wanted if slot.timed]
        if not n_due:
            continue
        n_timed = sum(slot.timed for slot in timed)
        rows.append(
            ViewerRow(
                **_place(cell.place),
                viewers=cell.viewers,
                run=cell.run,
                participant=participant,
                copies_due=n_due,
                copies=sum(slot.copies - slot.duplicates for slot in wanted),
                duplicates=sum(slot.duplicates for slot in wanted),
                misordered=sum(slot.misordered for slot in wanted),
                avg_delay_s=sum(s.sum_ns for s in timed) / n_timed / NS if timed else None,
                min_delay_s=min((s.min_ns / NS for s in timed), default=None),
                max_delay_s=max((s.max_ns / NS for s in timed), default=None),
                jitter_s=sum(s.jitter_ns for s in timed) / len(timed) / NS if timed else None,
            )
        )
    return rows


def _place(of: Place) -> dict[str, str]:
    names = ("part", "topology", "row", "engine", "port", "wait")
    return dict(zip(names, of.key, strict=True))


def _due(part: Part, run: Run) -> dict[tuple[int, int], int]:
    return copies_due(part, run.cell.participants, run.seen.totals.sent_of_streams)


def run_row(part: Part, run: Run, of_viewers: Sequence[ViewerRow], before: RunRow | None) -> RunRow:
    """Makes the row of a run.

    Compares the average with that of `before`, which is the previous run at the same place.
    """
    cell, facts, seen = run.cell, run.facts, run.seen
    totals = seen.totals
    last = last_copies_s(seen.samples)
    first = np.array([one.first_copy_ns / NS for one in seen.samples if one.copies])
    due = _due(part, run)
    viewed = {stream for stream, _ in due}
    strangers = sum(
        slot.copies for slot in seen.slots if (slot.stream, slot.participant) not in due
    )
    copies = sum(one.copies for one in of_viewers)
    averages = [one.avg_delay_s for one in of_viewers if one.avg_delay_s is not None]
    jitters = [slot.jitter_ns / NS for slot in seen.slots if slot.timed > 1]
    average = float(last.mean()) if len(last) else None
    n_packets = max(1, totals.sent)
    size = totals.bytes_sent / n_packets
    sending_s = max(totals.sending_s, 1e-9)
    return RunRow(
        **_place(cell.place),
        bitrate_mbps=nominal_mbps(part, totals.bytes_sent / cell.senders, facts.planned_s),
        packet_size_bytes=size,
        viewers=cell.viewers,
        run=cell.run,
        duration_s=totals.sending_s,
        min_delay_s=float(last.min()) if len(last) else None,
        max_delay_s=float(last.max()) if len(last) else None,
        avg_delay_s=average,
        stddev_delay_s=float(last.std()) if len(last) else None,
        packets_in=totals.sent,
        packets_out=copies + sum(one.duplicates for one in of_viewers) + strangers,
        packets_lost_in=sum(
            not sample.copies for sample in seen.samples if sample.stream in viewed
        ),
        packets_lost_out=totals.others,
        volume_in_kbit=totals.bytes_sent * 8 / 1000,
        volume_out_kbit=copies * size * 8 / 1000,
        avg_delay_change_vs_previous_run_pct=change_pct(
            average, before.avg_delay_s if before and before.key == cell.place.key else None
        ),
        true_bitrate_kbps=totals.bytes_sent * 8 / 1000 / sending_s,
        repeats=len(facts.repeated_because),
        copies_missing=copies_missing(due, seen.slots),
        min_first_copy_delay_s=float(first.min()) if len(first) else None,
        avg_first_copy_delay_s=float(first.mean()) if len(first) else None,
        p99_delay_s=percentile(last, 99),
        sfu_cpu_s=facts.sfu_cpu_s,
        senders=cell.senders,
        streams=cell.senders * len(part.streams),
        sample_every=facts.sample_every,
        first_copy_p50_s=percentile(first, 50),
        first_copy_p95_s=percentile(first, 95),
        first_copy_p99_s=percentile(first, 99),
        first_copy_p999_s=percentile(first, 99.9),
        last_copy_p50_s=percentile(last, 50),
        last_copy_p95_s=percentile(last, 95),
        last_copy_p999_s=percentile(last, 99.9),
        duplicates=sum(one.duplicates for one in of_viewers),
        misordered=sum(one.misordered for one in of_viewers),
        strangers=strangers,
        viewers_spread_pct=change_pct(max(averages), min(averages)) if averages else None,
        fairness=jain([one.copies / one.copies_due for one in of_viewers]),
        jitter_avg_s=mean(jitters),
        jitter_max_s=max(jitters, default=None),
        sfu_cpu_us_per_packet=facts.sfu_cpu_s * 1e6 / n_packets,
        kernel_cpu_us_per_packet=(
            (facts.sfu_kernel_cpu_s + facts.interrupts_s) * 1e6 / n_packets
            if facts.sfu_kernel_cpu_s is not None
            else None
        ),
        empty_loop_p999_us=run.empty_loop.p999_ns / 1e3,
        empty_loop_max_us=run.empty_loop.max_ns / 1e3,
        warm_up_avg_delay_s=float(last[:WARM_UP_PACKETS].mean()) if len(last) else None,
        outliers=n_outliers(last),
        late_max_s=totals.late_max_ns / NS,
        is_broken=facts.is_broken,
        avg_copy_delay_s=_avg_copy_s(seen.samples),
    )


def _avg_copy_s(samples: Sequence[Sample]) -> float | None:
    n_copies = sum(sample.copies for sample in samples)
    return sum(sample.sum_ns for sample in samples) / n_copies / NS if n_copies else None


def nominal_mbps(part: Part, sent_bytes: float, planned_s: float) -> float:
    """The bitrate of a sender's streams together.

    This is the sum of the configured bitrates. If a stream has no configured bitrate, the result is
    computed from `sent_bytes` and `planned_s`.
    """
    told = [stream.bitrate_mbps for stream in part.streams]
    if all(one is not None for one in told):
        return sum(one for one in told if one is not None)
    return round(sent_bytes * 8e-6 / max(planned_s, 1e-9), 3)


def jain(shares: Sequence[float]) -> float | None:
    """Jain's fairness index: 1 if all shares are equal, 1/n if one of n viewers gets everything."""
    squares = sum(share * share for share in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else None


def _summary(rows: Sequence[RunRow], runs: Sequence[Run], before: SummaryRow | None) -> SummaryRow:
    first = rows[0]
    of_runs = [last_copies_s(run.seen.samples) for run in runs]
    pooled = np.concatenate(of_runs)
    averages = np.array([row.avg_delay_s for row in rows if row.avg_delay_s is not None])
    average = float(averages.mean()) if len(averages) else None
    low_s, high_s = bootstrap_mean(of_runs)
    due = sum(row.copies_missing for row in rows) + sum(
        row.packets_out - row.duplicates - row.strangers for row in rows
    )
    n = len(rows)
    return SummaryRow(
        **_place(runs[0].cell.place),
        bitrate_mbps=first.bitrate_mbps,
        viewers=first.viewers,
        min_delay_s=float(pooled.min()) if len(pooled) else None,
        max_delay_s=float(pooled.max()) if len(pooled) else None,
        avg_delay_s=average,
        avg_delay_change_vs_previous_viewers_pct=change_pct(
            average, before.avg_delay_s if before and before.key == first.key else None
        ),
        stddev_of_avg_delay_between_runs_s=float(averages.std()) if len(averages) else None,
        runs=n,
        avg_packets_lost_in=sum(row.packets_lost_in for row in rows) / n,
        avg_packets_lost_out=sum(row.packets_lost_out for row in rows) / n,
        avg_copies_missing=sum(row.copies_missing for row in rows) / n,
        avg_delay_low_s=low_s,
        avg_delay_high_s=high_s,
        first_copy_avg_s=mean(row.avg_first_copy_delay_s for row in rows),
        p50_delay_s=percentile(pooled, 50),
        p95_delay_s=percentile(pooled, 95),
        p99_delay_s=percentile(pooled, 99),
        p999_delay_s=percentile(pooled, 99.9),
        jitter_avg_s=mean(row.jitter_avg_s for row in rows),
        duplicates=sum(row.duplicates for row in rows),
        misordered=sum(row.misordered for row in rows),
        strangers=sum(row.strangers for row in rows),
        loss_pct=100.0 * sum(row.copies_missing for row in rows) / max(1, due),
        sfu_cpu_us_per_packet=sum(row.sfu_cpu_us_per_packet for row in rows) / n,
        kernel_cpu_us_per_packet=mean(row.kernel_cpu_us_per_packet for row in rows),
        is_broken=any(row.is_broken for row in rows),
        avg_copy_delay_s=mean(row.avg_copy_delay_s for row in rows),
    )


def cell(column: str, value: Any) -> str:
    """Writes a value with the digits that make sense in its column, such as nine for seconds."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | str):
        return str(value)
    return next((f"{value:{form}}" for end, form in _FORMS if column.endswith(end)), f"{value:.6g}")
