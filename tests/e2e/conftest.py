"""End-to-end tests: the real programs on the real switch in real namespaces."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lab.controller import REPRISE
from lab.process import REPOSITORY, Child
from lab.switch import (
    READY_TIMEOUT_S,
    RECIRCULATION_PROGRAM,
    REPLICATION_PROGRAM,
    SWITCH,
    require_build,
)
from tests.e2e.two_ports import TwoPorts, two_ports

PROGRAMS = [RECIRCULATION_PROGRAM, REPLICATION_PROGRAM]
ROUTER = REPOSITORY / "examples/p4rt/router.p4"


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


def verdicts_of(shown: dict[str, Any]) -> dict[str, int]:
    """How many packets got each verdict that was met, by its short name; of `reprise show`."""
    named = {one["verdict"].rsplit(".", 1)[-1]: one["packets"] for one in shown["verdicts"]}
    return {name: n for name, n in named.items() if n}


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch for the shells, whose port 1 is a UDP socket."""

    process: Child
    grpc: str
    thrift_port: str
    udp_port: int


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[Switch]:
    """It runs the router of docs/p4rt.md."""
    require_build(SWITCH, REPRISE)
    argv = [str(SWITCH), "-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    argv += ["--thrift-port", "0", str(ROUTER)]
    with Child(argv, tmp_path / "switch.log") as process:
        ready = process.wait_for_line("ready:", READY_TIMEOUT_S)
        shape = r"1@udp:127\.0\.0\.1:(\d+), P4Runtime on (127\.0\.0\.1:\d+),.* Thrift on .*:(\d+)"
        found = re.search(shape, ready)
        assert found, ready
        yield Switch(process, found[2], found[3], int(found[1]))
