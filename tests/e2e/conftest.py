"""Fixtures of the end-to-end tests, which run the real programs in network namespaces."""

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
    """Each SFU program in turn, one of them also in the kernel. Viewers must see no difference."""
    served: Sfu = request.param
    if served.is_in_kernel:
        request.getfixturevalue("system_root")
    return served


@pytest.fixture
def running(namespaces: None, logs: Path) -> Iterator[TwoPorts]:
    """A running switch without groups, on which the SFU has an address on each of two ports."""
    with two_ports(logs) as running:
        yield running


def verdicts_of(shown: dict[str, Any]) -> dict[str, int]:
    """Maps each verdict in the output of `reprise show` to the number of its packets.

    Verdicts without packets are left out. The key of a verdict is the last part of its name.
    """
    named = {one["verdict"].rsplit(".", 1)[-1]: one["packets"] for one in shown["verdicts"]}
    return {name: n for name, n in named.items() if n}


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch for tests of the two shells. Its port 1 is a UDP socket."""

    process: Child
    grpc: str
    thrift_port: str
    udp_port: int


@pytest.fixture
def switch(tmp_path: Path) -> Iterator[Switch]:
    """A switch that runs the router of docs/p4rt.md."""
    require_build(SWITCH, REPRISE)
    argv = [str(SWITCH), "-i", "1@udp:127.0.0.1:0", "--grpc", "127.0.0.1:0"]
    argv += ["--thrift-port", "0", str(ROUTER)]
    with Child(argv, tmp_path / "switch.log") as process:
        ready = process.wait_for_line("ready:", READY_TIMEOUT_S)
        shape = r"1@udp:127\.0\.0\.1:(\d+), P4Runtime on (127\.0\.0\.1:\d+),.* Thrift on .*:(\d+)"
        found = re.search(shape, ready)
        assert found, ready
        yield Switch(process, found[2], found[3], int(found[1]))
