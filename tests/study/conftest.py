"""Removes after each test the rows (SFUs) that the test's experiment has added."""

from collections.abc import Iterator

import pytest

from lab.rows import ROWS


@pytest.fixture(autouse=True)
def rows_of_the_project() -> Iterator[None]:
    before = dict(ROWS)
    yield
    ROWS.clear()
    ROWS.update(before)
