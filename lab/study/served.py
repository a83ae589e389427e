"""`served.csv`: how many viewers each row of a load serves. Pure."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from lab.csvs import text_of
from lab.study.results import CONVERSATION_MS, MUSICIANS_MS, Series, Served

FILE = "served.csv"
LIMITS_MS = (MUSICIANS_MS, CONVERSATION_MS)
_COLUMNS = ["part", "row", "engine", "port", "wait", "limit_ms", "most", "first_bad"]


@dataclass(frozen=True, slots=True)
class ServedRow:
    """How many viewers within a limit; without a first that is not served no more were tried."""

    part: str
    row: str
    engine: str
    port: str
    wait: str
    limit_ms: float
    served: Served


def served_of(series: Iterable[Series]) -> list[ServedRow]:
    """Of each row in each variant, at each limit."""
    return [
        ServedRow(
            one.part.part,
            one.row,
            one.summaries[0].engine,
            one.summaries[0].port,
            one.summaries[0].wait,
            limit_ms,
            one.served(limit_ms),
        )
        for one in series
        for limit_ms in LIMITS_MS
    ]


def as_csv(rows: Iterable[ServedRow]) -> str:
    """A line each."""
    lines = [
        [
            one.part,
            one.row,
            one.engine,
            one.port,
            one.wait,
            f"{one.limit_ms:g}",
            str(one.served.most),
            "" if one.served.first_bad is None else str(one.served.first_bad),
        ]
        for one in rows
    ]
    return text_of([_COLUMNS, *lines])


def read(text: str) -> list[ServedRow]:
    """What `as_csv` wrote."""
    return [
        ServedRow(
            row["part"],
            row["row"],
            row["engine"],
            row["port"],
            row["wait"],
            float(row["limit_ms"]),
            Served(int(row["most"]), int(row["first_bad"]) if row["first_bad"] else None),
        )
        for row in csv.DictReader(io.StringIO(text))
    ]
