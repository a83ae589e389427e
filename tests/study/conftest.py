"""Fixtures for every test of a study (a measurement of all that an experiment's file lists)."""

from collections.abc import Iterator

import pytest

from lab.rows import ROWS
from lab.study import runner


@pytest.fixture(autouse=True)
def rows_of_the_project() -> Iterator[None]:
    """Removes after each test the rows (SFUs) that the test's experiment has added."""
    before = dict(ROWS)
    yield
    ROWS.clear()
    ROWS.update(before)


@pytest.fixture(autouse=True)
def any_pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets senders be 3 s behind their pace, because tests beside this one may slow them down."""
    monkeypatch.setattr(runner, "PACE_TOLERANCE_S", 3.0)
