"""A fixture for the tests of the conference service."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.service.running import Running


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A switch and a service, which a test may kill."""
    with Running(tmp_path) as running:
        yield running
