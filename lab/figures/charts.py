"""Charts: lines against a number, and bars. Pure; `lab.figures.plot` draws them."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """One line; hollow markers and dashes are the weaker of two of one colour.

    `turn` counts the lines of one colour and marker: each has a stroke of its own.
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
    """The title of an axis; ticks are the numbers to mark, if any will not do."""

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
    is_hollow: bool = False


@dataclass(frozen=True, slots=True)
class Bars:
    """Horizontal bars, the first on top."""

    key: str
    title: str
    label: str
    bars: tuple[Bar, ...]
    note: str
    form: str = ",.0f"


Chart = Lines | Bars


def finite(pairs: Sequence[tuple[float, float]]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Points of a line without those that were not measured, in the order of their numbers."""
    kept = sorted((x, y) for x, y in pairs if y > 0)
    return tuple(x for x, _ in kept), tuple(y for _, y in kept)
