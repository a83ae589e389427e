"""CSV files whose rows are dataclasses: each field is a column."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar

Row = TypeVar("Row")


class ColumnError(ValueError):
    """A file lacks a column, or a cell has another type than its column."""


def text_of(lines: Iterable[Sequence[str]]) -> str:
    """Writes lines of cells as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def short_cell(_: str, value: object) -> str:
    """Writes a value to six digits; an empty cell if it was not measured (NaN or None)."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.6g}"
    return "" if value is None else str(value)


def csv_text(
    kind: type[Any], rows: Iterable[Any], cell: Callable[[str, Any], str] = short_cell
) -> str:
    """Writes rows of a dataclass as CSV, with a header. `cell` writes a column's value as text."""
    names = [column.name for column in fields(kind)]
    return text_of([names, *([cell(name, getattr(row, name)) for name in names] for row in rows)])


def lines_of(rows: Sequence[dict[str, object]]) -> str:
    names = list(rows[0]) if rows else []
    return text_of([names, *([str(value) for value in row.values()] for row in rows)])


def rows_of(kind: type[Row], text: str, name: str) -> list[Row]:
    """Reads the rows of a CSV text, without columns that `kind` lacks. Errors begin with `name`.

    A column whose field has a default may be missing, because some files are older than the column.
    """
    columns = fields(kind)  # type: ignore[arg-type]
    reader = csv.DictReader(io.StringIO(text))
    there = set(reader.fieldnames or ())
    missing = [one.name for one in columns if one.name not in there and one.default is MISSING]
    if missing:
        raise ColumnError(f"{name}: expected a column {missing[0]}, found {reader.fieldnames}")
    here = [column for column in columns if column.name in there]
    return [
        kind(**{one.name: _value(one.type, row[one.name], name) for one in here}) for row in reader
    ]


def numbers_of(kind: type[Row], file: Path) -> tuple[Row, ...]:
    """Reads the rows of a file in which every cell is a whole number."""
    names = [column.name for column in fields(kind)]  # type: ignore[arg-type]
    with file.open(newline="") as lines:
        return tuple(kind(*(int(line[name]) for name in names)) for line in csv.DictReader(lines))


def _value(kind: Any, text: str, name: str) -> Any:
    """Reads a cell. An empty cell is None in an optional column, and NaN in a column of floats."""
    try:
        if kind in (float | None, int | None):
            return _value(kind.__args__[0], text, name) if text else None
        if kind is float:
            return float(text) if text else math.nan
        return int(text) if kind is int else text
    except ValueError:
        raise ColumnError(f"{name}: expected {kind.__name__}, found {text!r}") from None
