"""The switch under test: the one at REPRISE_SWITCH (device id 1), or one in memory."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PATIENCE_S = 120


@pytest.fixture(scope="session")
def in_memory() -> bool:
    """Whether the switch is the one in memory, whose port 3 is looped back to port 0."""
    return "REPRISE_SWITCH" not in os.environ


@pytest.fixture(scope="session")
def memory_switch(in_memory: bool) -> Path | None:
    """The program of the switch in memory, where that is the switch under test."""
    return memory_switch_program() if in_memory else None


def memory_switch_program() -> Path:
    """The one of `make test`, or built here."""
    if programs := os.environ.get("REPRISE_PROGRAMS"):
        return Path(programs) / "examples" / "memory_switch"
    build = ["cargo", "build", "--quiet", "-p", "p4runtime-server", "--example", "memory_switch"]
    subprocess.run(build, cwd=ROOT, check=True)
    return TARGET / "debug/examples/memory_switch"


@pytest.fixture(scope="session")
def over_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Where a switch in memory speaks mutual TLS, and the folder of certificates."""
    folder = tmp_path_factory.mktemp("certificates")
    command = [str(memory_switch_program()), "127.0.0.1:0", "--tls", str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as switch:
        assert switch.stdout is not None
        assert switch.stdin is not None
        yield switch.stdout.readline().strip(), folder
        switch.stdin.close()
        assert switch.wait(timeout=PATIENCE_S) == 0


@pytest.fixture
def address(memory_switch: Path | None) -> Iterator[str]:
    if memory_switch is None:
        yield os.environ["REPRISE_SWITCH"]
        return
    command = [str(memory_switch), "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as switch:
        assert switch.stdout is not None
        assert switch.stdin is not None
        yield switch.stdout.readline().strip()
        # It serves until its input ends, and must then stop by itself.
        switch.stdin.close()
        assert switch.wait(timeout=PATIENCE_S) == 0
