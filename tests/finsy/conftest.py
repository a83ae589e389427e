"""Fixtures that give tests a switch: the one at REPRISE_SWITCH, or else `memory_switch`.

The variable REPRISE_SWITCH holds the address of a switch whose device id is 1. Without it, the
tests run the program `memory_switch`.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from controller import PATIENCE_S, ROOT

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raises finsy's timeout of 10 s, for which finsy has no option.

    While other tests run, a read of 131,072 cells takes longer than that.
    """
    monkeypatch.setattr("finsy.p4client._DEFAULT_RPC_TIMEOUT", float(PATIENCE_S))


@pytest.fixture(scope="session")
def in_memory() -> bool:
    """Whether the switch is `memory_switch`, which feeds frames that leave port 3 into port 0."""
    return "REPRISE_SWITCH" not in os.environ


@cache
def memory_switch() -> Path:
    """Returns the path of `memory_switch`: `make test` built it, or this function builds it."""
    if programs := os.environ.get("REPRISE_PROGRAMS"):
        return Path(programs) / "examples" / "memory_switch"
    build = ["cargo", "build", "--quiet", "-p", "p4runtime-server", "--example", "memory_switch"]
    subprocess.run(build, cwd=ROOT, check=True)
    return TARGET / "debug/examples/memory_switch"


@contextmanager
def serving(*options: str) -> Iterator[str]:
    """Runs `memory_switch` with these options; yields the switch's address."""
    with subprocess.Popen(
        [str(memory_switch()), "127.0.0.1:0", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as switch:
        assert switch.stdout is not None
        assert switch.stdin is not None
        yield switch.stdout.readline().strip()
        # The switch serves until its input ends, and must then end by itself.
        switch.stdin.close()
        assert switch.wait(timeout=PATIENCE_S) == 0


@pytest.fixture(scope="session")
def over_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Runs a switch in memory with mutual TLS; yields its address and the certificates' folder."""
    folder = tmp_path_factory.mktemp("certificates")
    with serving("--tls", str(folder)) as address:
        yield address, folder


@pytest.fixture
def address(in_memory: bool) -> Iterator[str]:
    if not in_memory:
        yield os.environ["REPRISE_SWITCH"]
        return
    with serving() as address:
        yield address
