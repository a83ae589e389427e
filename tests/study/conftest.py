"""What every test of a study needs."""

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
    """Allows any pace, because tests that run beside this one may slow a sender down."""
    monkeypatch.setattr(runner, "PACE_TOLERANCE_S", 3.0)
