"""Describes charts: lines over a numeric axis, and bars. `lab.figures.plot` draws them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart. Of two lines of one colour, the dashed, hollow one is less important.

    `turn` is the line's number among those of the same colour; each number has a stroke of its own.
    """

    label: str
    colour: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    marker: str = "o"
    is_dashed: bool = False
    turn: int = 0


@dataclass(frozen=True, slots=True)
class Level:
    label: str
    colour: str
    y: float


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis with its title. `ticks` are the numbers to mark; if empty, the drawing chooses."""

    label: str
    is_log: bool = False
    ticks: tuple[float, ...] = ()
    starts_at_zero: bool = False


@dataclass(frozen=True, slots=True)
class Lines:
    key: str
    title: str
    x: Axis
    y: Axis
    lines: tuple[Line, ...]
    note: str
    levels: tuple[Level, ...] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    label: str
    colour: str
    value: float


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars, the first on top."""

    key: str
    title: str
    label: str
    bars: tuple[Bar, ...]
    note: str


Chart = Lines | Bars


def finite(pairs: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The points of a line, sorted by x, without those that were not measured (y is NaN or 0)."""
    kept = sorted((x, y) for x, y in pairs if y > 0)
    return tuple(x for x, _ in kept), tuple(y for _, y in kept)
