"""Two studies side by side: ratios of mean delays, and whether they differ. No I/O.

The confidence interval of a ratio comes from bootstraps of both means. If 1 is outside this
interval, the studies differ at the 5 % level. The cause of a difference may be the machine or the
day, which all runs of one study share.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from lab.experiment import Experiment, Part
from lab.figures.tables import milliseconds, times
from lab.offered import copies_due, copies_missing
from lab.results.folder import Run
from lab.results.runs import CONFIDENCE_PCT, Delays, bootstrapped_means, last_copies_s

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
_OFFERED = {"topology", "senders", "streams", "duration_s", "seed"}
"""Runs of two studies are compared only if these fields of their parts are equal."""


@dataclass(frozen=True, slots=True)
class Side:
    experiment: Experiment
    runs: Sequence[Run]


def compared(a: Side, b: Side) -> list[tuple[str, ...]]:
    """Returns the lines of the comparison, in A's order.

    There is a line for each load, row (a forwarder that is measured), variant and number of viewers
    in A or B.
    """
    in_a, in_b = _by_key(a.runs), _by_key(b.runs)
    keys = [*in_a, *(key for key in in_b if key not in in_a)]
    return [_line(key, (a, in_a.get(key, [])), (b, in_b.get(key, []))) for key in keys]


def _by_key(runs: Iterable[Run]) -> dict[Key, list[Run]]:
    def key_of(run: Run) -> Key:
        place = run.cell.place
        return (place.part, place.row, str(place.variant), run.cell.viewers)

    return {key: list(group) for key, group in groupby(runs, key=key_of)}


def _line(key: Key, *sides: tuple[Side, list[Run]]) -> tuple[str, ...]:
    part, row, variant, viewers = key
    parts = [side.experiment.part(part) if runs else None for side, runs in sides]
    delays = [[last_copies_s(run.seen.samples) for run in runs] for _, runs in sides]
    return (
        part,
        f"{row} {variant}".strip(),
        str(viewers),
        *(milliseconds(_mean(one)) for one in delays),
        *_judged(parts, delays),
        *(
            str(sum(_missing(of, run) for run in runs)) if of else ""
            for of, (_, runs) in zip(parts, sides, strict=True)
        ),
    )


def _judged(parts: Sequence[Part | None], delays: Sequence[Sequence[Delays]]) -> tuple[str, ...]:
    """Returns the ratio, its interval and a verdict. If there is no ratio, the verdict says why."""
    offered = [part.model_dump(include=_OFFERED) if part else None for part in parts]
    means = [bootstrapped_means(one, seed) for seed, one in enumerate(delays, 1)]
    middles = [_mean(one) for one in delays]
    if None in offered:
        return "", "", "only in B" if offered[0] is None else "only in A"
    if offered[0] != offered[1]:
        return "", "", "the load differs"
    if means[0] is None or means[1] is None or not middles[0] or not middles[1]:
        return "", "", "no copy in " + ("A" if means[0] is None else "B")
    tail = (100 - CONFIDENCE_PCT) / 2
    low, high = np.percentile(means[1] / means[0], (tail, 100 - tail))
    verdict = "alike" if low <= 1 <= high else ("B is slower" if low > 1 else "B is faster")
    return times(middles[1] / middles[0]), f"{low:.3g} to {high:.3g}", verdict


def _missing(part: Part, run: Run) -> int:
    due = copies_due(part, run.cell.participants, run.seen.totals.sent_of_streams)
    return copies_missing(due, run.seen.slots)


def _mean(delays: Sequence[Delays]) -> float | None:
    pooled = np.concatenate(delays) if delays else np.array([])
    return float(pooled.mean()) if len(pooled) else None
