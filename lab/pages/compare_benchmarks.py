"""Benchmarks of two studies side by side: each measured column, row by row, and its ratio. No I/O.

If both studies measured everything in several sets (`...-rounds.csv`), a value counts as different
when it is greater in every set of one study than in every set of the other. With fewer sets there
is no verdict.
"""

import csv
import io
from collections.abc import Iterator, Mapping

from lab.figures.tables import times
from lab.results.benchmarks import FILES

HEADER = ("file", "what", "column", "A", "B", "B / A", "verdict")


WHOLE = "whole"
Rows = Mapping[tuple[str, ...], list[Mapping[str, str]]]


def compared(a: Mapping[str, str], b: Mapping[str, str]) -> list[tuple[str, ...]]:
    """Returns a line for each value that A or B measured. `a` and `b` map file names to texts."""
    return [line for name in FILES for line in _of_file(name, a, b)]


def _of_file(name: str, a: Mapping[str, str], b: Mapping[str, str]) -> Iterator[tuple[str, ...]]:
    _, kind = FILES[name]
    if name.endswith("-rounds.csv"):
        return
    sides = [_rows(one.get(name, ""), kind.names) for one in (a, b)]
    rounds = name.replace(".csv", "-rounds.csv")
    sets = [_rows(one.get(rounds, ""), kind.names) for one in (a, b)]
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        what = " ".join(filter(None, key))
        rows = [side[key][0] if key in side else None for side in sides]
        for column in kind.measured:
            values = [_number(row.get(column)) if row else None for row in rows]
            if values == [None, None]:
                continue
            of_sets = [
                [value for row in side.get(key, []) if (value := _number(row.get(column)))]
                for side in sets
            ]
            yield (name, what, column, *map(_told, values), *_judged(values, of_sets))


def _rows(text: str, names: tuple[str, ...]) -> Rows:
    found: dict[tuple[str, ...], list[Mapping[str, str]]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        if row.get("part", WHOLE) == WHOLE:
            found.setdefault(tuple(row.get(name) or "" for name in names), []).append(row)
    return found


def _number(text: str | None) -> float | None:
    return float(text) if text else None


def _told(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}" if value < 1e4 else f"{value:,.0f}"


def _judged(values: list[float | None], sets: list[list[float]]) -> tuple[str, str]:
    a, b = values
    if a is None or b is None:
        return "", "only in B" if a is None else "only in A"
    ratio = times(b / a) if a else ""
    if min(map(len, sets)) < 2:
        return ratio, ""
    if min(sets[1]) > max(sets[0]):
        return ratio, "B is higher"
    return ratio, "B is lower" if max(sets[1]) < min(sets[0]) else "alike"
