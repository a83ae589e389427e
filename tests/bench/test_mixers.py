"""Tests the mouth-to-ear benchmark: the clicks, the table, and the musicians' programs."""

from pathlib import Path

import numpy as np
import pytest

from lab.baselines.jack_clicks import CLICK_SAMPLES, SPACING_SAMPLES, Clicks
from lab.bench import mixers
from lab.bench.mixers import MixersCell, row_of
from lab.csvs import rows_of
from lab.figures.mixers import tables
from lab.process import ChildError
from lab.results.benchmarks import MixersRow
from tests.needs import need

PERIOD = 128


def heard_after(delay: int, n_clicks: int, loudness: float = 1.0) -> list[list[int]]:
    """Returns what one listener hears of clicks that arrive `delay` samples later."""
    clicks = Clicks(n_clicks, 1)
    clicks.is_on = True
    n_periods = (n_clicks + 2) * SPACING_SAMPLES // PERIOD
    sound = np.zeros(delay + n_periods * PERIOD, np.float32)
    for now in range(0, n_periods * PERIOD, PERIOD):
        period = np.zeros(PERIOD, np.float32)
        clicks.play(now, period)
        sound[delay + now : delay + now + PERIOD] = loudness * period
        clicks.hear(now, 0, sound[now : now + PERIOD])
    assert clicks.is_done
    return clicks.came


@pytest.mark.parametrize("delay", [0, 1, 100, 128, 1_000, SPACING_SAMPLES - PERIOD])
def test_a_click_is_heard_to_the_sample(delay: int) -> None:
    assert heard_after(delay, 5) == [[delay]] * 5


def test_a_click_that_is_too_quiet_is_not_heard() -> None:
    assert heard_after(100, 3, loudness=0.1) == [[-1]] * 3


def test_a_click_fits_its_period_and_is_played_once() -> None:
    clicks = Clicks(1, 1)
    clicks.is_on = True
    first, second = np.zeros(PERIOD, np.float32), np.ones(PERIOD, np.float32)
    clicks.play(0, first)
    clicks.play(PERIOD, second)
    assert np.count_nonzero(first) == CLICK_SAMPLES
    assert np.count_nonzero(second) == 0


def test_a_row_has_percentiles_in_milliseconds_and_what_was_not_heard() -> None:
    row = row_of(MixersCell("hub", "jacktrip", 3, 2), "480 960\n-1 1440\n", 0.25)
    assert (row.due, row.lost, row.p50_ms, row.max_ms, row.cpu_pct) == (4, 1, 20, 30, 25)


def test_nothing_heard_is_an_error() -> None:
    with pytest.raises(ChildError, match="none of 2 clicks was heard"):
        row_of(MixersCell("hub", "jacktrip", 2, 2), "-1\n-1\n", 0)


def test_the_table_takes_off_the_clients_own_loop_where_there_is_one() -> None:
    rows = [
        row_of(MixersCell(between, program, 2, 1), f"{delay}\n", 0)
        for between, program, delay in (
            ("nothing", "jacktrip", 480),
            ("hub", "jacktrip", 960),
            ("server", "jamulus", 1_440),
        )
    ]
    [table] = tables(rows)
    assert [row[:3] for row in table.rows] == [
        ("2 JackTrip", "nothing: their own loop", "10.0"),
        ("2 JackTrip", "JackTrip's hub", "20.0"),
        ("2 Jamulus", "Jamulus' server", "30.0"),
    ]
    assert [row[5] for row in table.rows] == ["", "+10.0", "not known"]


@pytest.mark.usefixtures("namespaces")
def test_a_listener_hears_clicks_with_whatever_is_between(tmp_path: Path) -> None:
    need(mixers.lacks())
    todo = mixers.cells(is_quick=True)
    assert mixers.run(tmp_path, todo) == []
    rows = rows_of(MixersRow, (tmp_path / "mixers.csv").read_text(), "mixers.csv")
    assert {row.between for row in rows} == {"nothing", "p4_conference", "hub", "server"}
    assert all(0 < row.p50_ms <= row.max_ms < 200 for row in rows), rows
    # A mixer takes processor time; `nothing` takes none.
    assert all((row.cpu_pct > 0) == (row.between != "nothing") for row in rows), rows
