"""End-to-end tests: the real programs on the real switch in real namespaces."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.switch import RECIRCULATION_PROGRAM, REPLICATION_PROGRAM
from tests.e2e.two_ports import TwoPorts, two_ports

PROGRAMS = [RECIRCULATION_PROGRAM, REPLICATION_PROGRAM]


@dataclass(frozen=True, slots=True)
class Sfu:
    program: Path
    is_in_kernel: bool = False

    def __str__(self) -> str:
        return self.program.stem + ("-in-kernel" if self.is_in_kernel else "")


SFUS = [*map(Sfu, PROGRAMS), Sfu(REPLICATION_PROGRAM, is_in_kernel=True)]


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.stem)
def program(request: pytest.FixtureRequest, namespaces: None) -> Path:
    """Each SFU program in turn."""
    path: Path = request.param
    return path


@pytest.fixture(params=SFUS, ids=str)
def sfu(request: pytest.FixtureRequest, namespaces: None) -> Sfu:
    """Each program in turn, and one in the kernel too: what a viewer sees is the same."""
    served: Sfu = request.param
    if served.is_in_kernel:
        request.getfixturevalue("system_root")
    return served


@pytest.fixture
def running(namespaces: None, logs: Path) -> Iterator[TwoPorts]:
    """A running switch with an own address on each of its two ports, no groups yet."""
    with two_ports(logs) as running:
        yield running
