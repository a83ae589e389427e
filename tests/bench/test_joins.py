"""Tests the benchmark of joins: its row, its table, the claims about it, and a short load."""

import dataclasses
import json
from pathlib import Path

import pytest

from lab.bench import joins
from lab.bench.joins import JoinsCell, row_of
from lab.csvs import rows_of
from lab.figures.joins import tables
from lab.pages.checks import checks
from lab.process import ChildError
from lab.results.benchmarks import JoinsRow, Results

CELL = JoinsCell(0, 500, 100, 20)
TIMES = {"n": 7, "p50": 12.5, "p99": 40.0, "p99.9": 41.0, "max": 44.0}


def said(**changed: object) -> str:
    totals = {
        "joins": 900,
        "failed": 0,
        "first_packet_ms": TIMES,
        "packets": 10_000,
        "lost": 5,
        "dropped_by_this_machine": 5,
        "foreign": 0,
        "delay_ms": TIMES,
    }
    return f'{{"second": 1}}\n{json.dumps(totals | changed)}\n'


def test_the_last_line_has_the_totals_and_what_the_load_dropped_itself_is_not_lost() -> None:
    row = row_of(CELL, said())
    assert (row.joins, row.p50_ms, row.p99_ms, row.lost, row.foreign) == (900, 12.5, 40.0, 0, 0)


def test_a_load_in_which_nobody_got_a_packet_is_an_error() -> None:
    with pytest.raises(ChildError, match="500 participants, 100 joins/s: nobody who joined"):
        row_of(CELL, said(first_packet_ms={"n": 0}))


def test_as_many_leave_as_join() -> None:
    assert CELL.leaving_pct == 20


def verdicts(*rows: JoinsRow) -> dict[str, bool | None]:
    return {promise.name: promise.holds for promise in checks(Results({}, joins=rows))}


def test_medians_are_compared_and_every_run_must_be_clean() -> None:
    good = row_of(CELL, said())
    late = dataclasses.replace(good, p50_ms=25.0, p99_ms=101.0)
    assert set(verdicts(good, good, late).values()) == {True}
    found = verdicts(good, late, dataclasses.replace(late, foreign=1))
    assert [name for name, holds in found.items() if not holds] == [
        "100 joins a second, 500 participants: first packet within 20 ms (p50)",
        "100 joins a second, 500 participants: first packet within 100 ms (p99)",
        "100 joins a second, 500 participants: none foreign",
    ]


@pytest.mark.usefixtures("namespaces")
def test_a_short_load_joins_and_loses_nothing(tmp_path: Path) -> None:
    todo = joins.cells(is_quick=True)
    assert joins.run(tmp_path, todo) == []
    rows = rows_of(JoinsRow, (tmp_path / "joins.csv").read_text(), "joins.csv")
    [row] = rows
    assert row.joins >= row.participants
    assert (row.failed, row.foreign) == (0, 0)
    assert row.p50_ms <= row.p99_ms <= row.max_ms
    [table] = tables(rows)
    assert table.rows[0][:3] == ("60", "20", "1")
