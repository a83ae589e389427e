"""The statistics of rows and tables. No I/O. A value that was not measured is None or NaN."""

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar, cast

import numpy as np
import numpy.typing as npt

Row = TypeVar("Row")


def percentile(values: "Sequence[float] | npt.NDArray[np.float64]", percent: float) -> float | None:
    """The nearest-rank percentile: the smallest value such that `percent` of all do not exceed it.

    `percent` may have one decimal. The rank is computed in integers, because 0.999 * 1000 is not
    exactly 999.
    """
    if not len(values):
        return None
    rank = -(-len(values) * round(percent * 10) // 1000)
    return float(np.sort(values)[max(rank, 1) - 1])


def percentile_or_nan(values: Sequence[float], percent: float) -> float:
    """The same as `percentile`, but NaN without values."""
    found = percentile(values, percent)
    return math.nan if found is None else found


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def median(values: Iterable[float]) -> float:
    """The median of the values that are not NaN; NaN if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def change_pct(value: float | None, before: float | None) -> float | None:
    if value is None or before is None or before == 0:
        return None
    return (value / before - 1) * 100


def ratio(ours: float, theirs: float) -> float:
    """`ours` divided by `theirs`; NaN if one of them was not measured or `theirs` is 0."""
    if math.isnan(ours) or math.isnan(theirs) or theirs <= 0:
        return math.nan
    return ours / theirs


def merged(
    runs: Sequence[Row],
    medians: Sequence[str],
    sums: Sequence[str],
    maxima: Sequence[str] = (),
) -> Row:
    """Merges runs of the same measurement, column by column: by median, sum or maximum.

    Columns that are not listed keep the value of the first run.
    """
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
    """Groups rows that are equal in these columns; keeps their order."""
    alike: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        alike.setdefault(tuple(getattr(row, column) for column in columns), []).append(row)
    return alike


def merged_sets(rows: Iterable[Row], columns: Sequence[str]) -> list[Row]:
    """Merges rows that are equal in these columns, by medians.

    The merged row's column `bound_by` lists the values of all merged rows.
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
