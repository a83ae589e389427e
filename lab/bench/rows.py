"""Rows of the benchmark's CSV files: dataclasses whose fields are the columns. Pure."""

import csv
import io
from dataclasses import MISSING, fields
from typing import Any, TypeVar

Row = TypeVar("Row")


class ColumnError(ValueError):
    """A file lacks a column, or a cell has another type than its column."""


def rows_of(kind: type[Row], text: str, name: str) -> list[Row]:
    """The rows of a file; further columns are left alone, `name` is for errors.

    A column with a default is younger than some files, and may be missing.
    """
    columns = fields(kind)  # type: ignore[arg-type]
    reader = csv.DictReader(io.StringIO(text))
    there = set(reader.fieldnames or ())
    missing = [one.name for one in columns if one.name not in there and one.default is MISSING]
    if missing:
        raise ColumnError(f"{name}: expected a column {missing[0]}, found {reader.fieldnames}")
    return [
        kind(
            **{
                column.name: _value(column.type, row[column.name], name)
                for column in columns
                if column.name in there
            }
        )
        for row in reader
    ]


def _value(kind: Any, text: str, name: str) -> Any:
    try:
        if kind in (float, "float"):
            return float(text) if text else float("nan")
        return int(text) if kind in (int, "int") else text
    except ValueError:
        raise ColumnError(f"{name}: expected {kind.__name__}, found {text!r}") from None
