"""The statistics of the tables. Pure; each is None if there are no values."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def mean(values: Sequence[float]) -> float | None:
    """The arithmetic mean, summed without rounding in between."""
    return math.fsum(values) / len(values) if values else None


def population_stddev(values: Sequence[float]) -> float | None:
    """The standard deviation of the population (divided by n), as the thesis has it."""
    middle = mean(values)
    if middle is None:
        return None
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / len(values))


def percentile(values: "Sequence[float] | npt.NDArray[np.float64]", percent: float) -> float | None:
    """The nearest-rank percentile: the smallest value that `percent` of all do not exceed.

    `percent` has one decimal at most: the rank is exact, where 0.999 times 1,000 is not 999.
    """
    if not len(values):
        return None
    rank = -(-len(values) * round(percent * 10) // 1000)
    return float(np.sort(values)[max(rank, 1) - 1])


def change_pct(value: float | None, before: float | None) -> float | None:
    """By how many percent `value` is above `before`."""
    if value is None or before is None or before == 0:
        return None
    return (value / before - 1) * 100


def ratio(published: float | None, ours: float | None) -> float | None:
    """How many times `ours` fits into `published`."""
    if published is None or ours is None or ours == 0:
        return None
    return published / ours
