"""`extended.csv` and `summary.csv` as text. Pure."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from lab.csvs import text_of
from lab.study.analysis import ExtendedRow, SummaryRow


def to_csv(kind: type[ExtendedRow] | type[SummaryRow], rows: Sequence[Any]) -> str:
    """`rows` of `kind` under their header; what does not exist is an empty cell."""
    names = [field.name for field in fields(kind)]
    body = [[cell(name, getattr(row, name)) for name in names] for row in rows]
    return text_of([names, *body])


def cell(column: str, value: Any) -> str:
    """One value, with the digits that its column's unit deserves: captures have nanoseconds."""
    if value is None:
        return ""
    if isinstance(value, int | str):
        return str(value)
    return next(
        (f"{value:{form}}" for end, form in _FORMS if column.endswith(end)), f"{value:.10g}"
    )


_FORMS = (("_cpu_s", ".2f"), ("_s", ".9f"), ("_pct", ".2f"), ("_kbps", ".3f"))
