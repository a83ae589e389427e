"""The results of a study, arranged for tables, figures and the report. No I/O."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from lab.experiment import Experiment, Part
from lab.results.published import Load, PublishedTable, table_for
from lab.results.runs import Measured, RunRow, SummaryRow, ViewerRow
from lab.rows import ROWS

Row = TypeVar("Row", RunRow, ViewerRow)
Key = tuple[str, str, str, str, str, str]
MUSICIANS_MS = 20.0
"""The delay that musicians who play together tolerate."""
CONVERSATION_MS = 150.0
"""The delay that ITU-T G.114 allows in a conversation."""


@dataclass(frozen=True, slots=True)
class Series:
    """The results of a row (an SFU) in a variant under one load, by number of viewers."""

    part: Part
    summaries: tuple[SummaryRow, ...]
    runs: tuple[RunRow, ...]
    viewers: tuple[ViewerRow, ...]

    @property
    def row(self) -> str:
        return self.summaries[0].row

    @property
    def variant(self) -> str:
        return self.summaries[0].variant

    @property
    def key(self) -> str:
        words = (self.part.part, self.row, self.variant.replace(" ", "-"))
        return "-".join(filter(None, words))

    @property
    def published(self) -> PublishedTable | None:
        return table_for(self.row, load_of(self.part))

    def at(self, viewers: int) -> SummaryRow | None:
        return next((one for one in self.summaries if one.viewers == viewers), None)

    def served(self, limit_ms: float, percentile: float = 99) -> "Served":
        """The largest number of viewers up to which runs lose nothing and are within a limit.

        The limit is for a percentile, 99 or 99.9, of the delay until a packet's last copy arrives.
        At least half of the runs must be good, but not all of them, because something that takes
        the processor for a moment may spoil one run. The search for the sizes to measure applies
        the same rule.
        """
        most, first_bad = 0, None
        for viewers in (one.viewers for one in self.summaries):
            runs = [run for run in self.runs if run.viewers == viewers]
            delays_s = [
                run.last_copy_p999_s if percentile == 99.9 else run.p99_delay_s for run in runs
            ]
            n_good = sum(
                run.copies_missing == 0 and delay_s is not None and delay_s * 1e3 <= limit_ms
                for run, delay_s in zip(runs, delays_s, strict=True)
            )
            is_good = 2 * n_good >= len(runs)
            if is_good and first_bad is None:
                most = viewers
            elif first_bad is None:
                first_bad = viewers
        return Served(most, first_bad)

    def place(self, place: int) -> "Place | None":
        """The mean delays of the first viewer and of viewer number `place`, in participants' order.

        The delays are averaged over all runs of the smallest size with at least `place` viewers.
        """
        sizes = sorted({one.viewers for one in self.viewers if one.viewers >= place})
        if not sizes or self.part.senders != 1:
            return None
        first, other = (
            [
                one.avg_delay_s
                for one in self.viewers
                if (one.viewers, one.participant) == (sizes[0], number + 1)
                and one.avg_delay_s is not None
            ]
            for number in (1, place)
        )
        if not first or not other:
            return None
        return Place(sizes[0], sum(first) / len(first), sum(other) / len(other))


@dataclass(frozen=True, slots=True)
class Place:
    """The mean delays of the first viewer and of viewer number `place`, in participants' order."""

    viewers: int
    first_s: float
    other_s: float


@dataclass(frozen=True, slots=True)
class Served:
    """How many viewers are served, and the smallest number tried that is not served, if any."""

    most: int
    first_bad: int | None

    def __str__(self) -> str:
        if self.first_bad is None:
            return f"{self.most:,} or more"
        return f"{self.most:,}"


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold in all runs. `failures` lists where it does not."""

    name: str
    n_rows: int
    failures: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether there is a run, and the check holds in every run."""
        return self.n_rows > 0 and not self.failures


@dataclass(frozen=True, slots=True)
class Results:
    experiment: Experiment
    measured: Measured
    cdfs: tuple["Cdf", ...]

    @property
    def series(self) -> list[Series]:
        """The results by part, row and variant, in the experiment's order."""
        runs, viewers = _by_key(self.measured.runs), _by_key(self.measured.viewers)
        found = []
        for key, group in groupby(self.measured.summaries, key=lambda one: one.key):
            part = self.experiment.part(key[0])
            found.append(Series(part, tuple(group), tuple(runs[key]), tuple(viewers[key])))
        return found

    def series_of(self, part: Part) -> list[Series]:
        return [one for one in self.series if one.part.part == part.part]

    @property
    def checks(self) -> list[Check]:
        return _checks(self)


@dataclass(frozen=True, slots=True)
class Cdf:
    """The distribution of the last copies' delays at one size, thinned to some points."""

    part: str
    label: str
    row: str
    viewers: int
    delays_ms: tuple[float, ...]
    shares: tuple[float, ...]


def _by_key(rows: Iterable[Row]) -> defaultdict[Key, list[Row]]:
    """Groups lines of results by their `key` (part, row, variant); keeps their order."""
    found: defaultdict[Key, list[Row]] = defaultdict(list)
    for one in rows:
        found[one.key].append(one)
    return found


def load_of(part: Part) -> Load:
    told = {stream.bitrate_mbps for stream in part.streams}
    intervals = {stream.interval_ms for stream in part.streams}
    return Load(
        everybody_sends=part.senders == "everybody",
        n_streams=len(part.streams),
        bitrate_mbps=told.pop() if len(told) == 1 else None,
        interval_ms=intervals.pop() if len(intervals) == 1 else None,
    )


def label_of(row: str, variant: str = "") -> str:
    return f"{ROWS[row].label} ({variant})" if variant else ROWS[row].label


def cdf_points(delays_s: npt.NDArray[np.float64], n: int = 200) -> tuple[list[float], list[float]]:
    """Returns up to `n` points of a CDF: delays in milliseconds, and the share at or below each."""
    ordered = np.sort(delays_s) * 1e3
    shares = np.linspace(0, 1, min(n, len(ordered)))
    places = np.minimum((shares * (len(ordered) - 1)).astype(int), len(ordered) - 1)
    return [float(one) for one in ordered[places]], [float(one) for one in shares]


def _checks(results: Results) -> list[Check]:
    p4 = [run for run in results.measured.runs if ROWS[run.row].is_p4]
    lossless = [
        run for run in p4 if not run.is_broken or run.viewers <= _published_most(run, results)
    ]
    lossy = [
        f"{_where(run)}: {run.copies_missing} copies missing, {run.duplicates} twice, "
        f"{run.misordered} out of order, {run.strangers} to strangers, "
        f"{run.packets_lost_out} unknown"
        for run in lossless
        if run.copies_missing
        or run.duplicates
        or run.misordered
        or run.strangers
        or run.packets_lost_out
    ]
    strange = [
        f"{_where(run)}: {run.strangers} to strangers, {run.duplicates} twice"
        for run in results.measured.runs
        if run.strangers or run.duplicates
    ]
    silent = [
        f"{one.part.part}, {label_of(one.row, one.variant)}: no copy of {packets} packets"
        for one in results.series
        if not any(run.packets_out for run in one.runs)
        for packets in (sum(run.packets_in for run in one.runs),)
    ]
    return [
        Check("every row forwards", len(results.measured.runs), tuple(silent)),
        Check(
            "P4 rows lose, double, misorder and misdirect nothing where the sources lost nothing",
            len(lossless),
            tuple(lossy),
        ),
        Check(
            "no row sends a copy twice or to somebody to whom none is due",
            len(results.measured.runs),
            tuple(strange),
        ),
    ]


def _published_most(run: RunRow, results: Results) -> int:
    """The most viewers in the published results, which have no losses; 0 if none are published."""
    table = table_for(run.row, load_of(results.experiment.part(run.part)))
    return max((row.viewers for row in table.rows), default=0) if table else 0


def _where(run: RunRow) -> str:
    return (
        f"{run.part}, {run.row} {run.variant}".rstrip() + f", {run.viewers} viewers, run {run.run}"
    )


def in_common(series: Sequence[Series]) -> int | None:
    sets = [{one.viewers for one in each.summaries} for each in series]
    common = set.intersection(*sets) if sets else set()
    return max(common, default=None)
