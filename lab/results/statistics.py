"""The statistics of rows and tables. Pure; what was not measured is None, or not a number."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

Row = TypeVar("Row")


def percentile(values: "Sequence[float] | npt.NDArray[np.float64]", percent: float) -> float | None:
    """The nearest-rank percentile: the smallest value that `percent` of all do not exceed.

    `percent` has one decimal at most: the rank is exact, where 0.999 times 1,000 is not 999.
    """
    if not len(values):
        return None
    rank = -(-len(values) * round(percent * 10) // 1000)
    return float(np.sort(values)[max(rank, 1) - 1])


def percentile_or_nan(values: Sequence[float], percent: float) -> float:
    """The same, not a number of no values."""
    found = percentile(values, percent)
    return math.nan if found is None else found


def mean(values: Iterable[float | None]) -> float | None:
    """Of those that there are."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def median(values: Iterable[float]) -> float:
    """Of those that were measured; not a number where none was."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def change_pct(value: float | None, before: float | None) -> float | None:
    if value is None or before is None or before == 0:
        return None
    return (value / before - 1) * 100


def ratio(ours: float, theirs: float) -> float:
    """Not a number where one of them was not measured."""
    if math.isnan(ours) or math.isnan(theirs) or theirs <= 0:
        return math.nan
    return ours / theirs


def merged(
    runs: Sequence[Row],
    medians: Sequence[str],
    sums: Sequence[str],
    maxima: Sequence[str] = (),
) -> Row:
    """Runs of the same thing as one row, column by column; the other columns are the first's."""
    whole: Sequence[tuple[Sequence[str], Callable[[list[Any]], Any]]] = (
        (medians, median),
        (sums, sum),
        (maxima, max),
    )
    changed: dict[str, Any] = {
        column: one_of([getattr(run, column) for run in runs])
        for columns, one_of in whole
        for column in columns
    }
    return cast("Row", replace(cast("Any", runs[0]), **changed))


def by_columns(rows: Iterable[Row], columns: Sequence[str]) -> dict[tuple[object, ...], list[Row]]:
    """Rows that are alike in these columns, in their order."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(tuple(getattr(row, column) for column in columns), []).append(row)
    return alike


def merged_sets(rows: Iterable[Row], columns: Sequence[str]) -> list[Row]:
    """Sets of what is alike in these columns become one row each: medians of what was measured.

    What was bound in several ways says all of them.
    """
    return [_merged_set(sets) for sets in by_columns(rows, columns).values()]


def _merged_set(sets: Sequence[Row]) -> Row:
    names = {one.name: one.type for one in fields(cast("Any", sets[0]))}
    floats = [name for name, kind in names.items() if kind is float]
    maxima = [name for name in ("is_peak_least", "is_disturbed") if name in names]
    row: Any = merged(sets, floats, (), maxima)
    if "bound_by" in names:
        bounds = {one.bound_by for one in cast("Sequence[Any]", sets)} - {""}
        row = replace(row, bound_by=" ".join(sorted(bounds)))
    return cast("Row", replace(row, sets=len(sets)))
