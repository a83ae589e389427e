"""Two studies side by side: ratios of mean delays, and whether they differ. Pure.

A ratio's interval comes from bootstraps of both means; where 1 is outside of it the two differ at
the 5 % level. Runs of one study share a machine and a day: what differs between two studies may be
those.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from lab.study.folder import Run
from lab.study.measures import CONFIDENCE_PCT, bootstrapped_means, last_copies_s
from lab.study.tables import milliseconds, times

HEADER = (
    "load",
    "row",
    "viewers",
    "A mean ms",
    "B mean ms",
    "B / A",
    "95 % interval",
    "verdict",
    "A lost",
    "B lost",
)
Key = tuple[str, str, str, int]


def compared(a: Iterable[Run], b: Iterable[Run]) -> list[tuple[str, ...]]:
    """A line for each load, row, variant and number of viewers in A or B, in A's order."""
    in_a, in_b = _by_key(a), _by_key(b)
    keys = [*in_a, *(key for key in in_b if key not in in_a)]
    return [_line(key, in_a.get(key, []), in_b.get(key, [])) for key in keys]


def _by_key(runs: Iterable[Run]) -> dict[Key, list[Run]]:
    def key_of(run: Run) -> Key:
        place = run.cell.place
        return (place.part, place.row, str(place.variant), run.cell.viewers)

    return {key: list(group) for key, group in groupby(runs, key=key_of)}


def _line(key: Key, a: Sequence[Run], b: Sequence[Run]) -> tuple[str, ...]:
    part, row, variant, viewers = key
    means = [_means(runs, seed) for seed, runs in enumerate((a, b), 1)]
    middles = [_mean(runs) for runs in (a, b)]
    ratio, interval, verdict = "", "", "only in one"
    if means[0] is not None and means[1] is not None and middles[0] and middles[1]:
        tail = (100 - CONFIDENCE_PCT) / 2
        low, high = np.percentile(means[1] / means[0], (tail, 100 - tail))
        ratio, interval = times(middles[1] / middles[0]), f"{low:.3g} to {high:.3g}"
        verdict = "alike" if low <= 1 <= high else ("B is slower" if low > 1 else "B is faster")
    return (
        part,
        f"{row} {variant}".strip(),
        str(viewers),
        milliseconds(middles[0]),
        milliseconds(middles[1]),
        ratio,
        interval,
        verdict,
        *(str(sum(_missing(run) for run in runs)) if runs else "" for runs in (a, b)),
    )


def _missing(run: Run) -> int:
    return run.seen.totals.copies_due - run.seen.totals.copies


def _means(runs: Sequence[Run], seed: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]] | None":
    return bootstrapped_means([last_copies_s(run.seen.samples) for run in runs], seed)


def _mean(runs: Sequence[Run]) -> float | None:
    delays = [last_copies_s(run.seen.samples) for run in runs]
    pooled = np.concatenate(delays) if delays else np.array([])
    return float(pooled.mean()) if len(pooled) else None
