"""End-to-end tests: the real programs on the real switch in real namespaces."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.switch import RECIRCULATION_PROGRAM, REPLICATION_PROGRAM
from tests.e2e.two_ports import TwoPorts, two_ports

PROGRAMS = [RECIRCULATION_PROGRAM, REPLICATION_PROGRAM]


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.stem)
def program(request: pytest.FixtureRequest, namespaces: None) -> Path:
    """Each SFU program in turn."""
    path: Path = request.param
    return path


@pytest.fixture
def running(namespaces: None, logs: Path) -> Iterator[TwoPorts]:
    """A running switch with an own address on each of its two ports, no groups yet."""
    with two_ports(logs) as running:
        yield running
