"""The switch under test: the one at REPRISE_P4RUNTIME, or one in memory."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))


@pytest.fixture
def in_memory() -> bool:
    """Whether the switch is the one in memory, whose port 3 is looped back to port 0."""
    return "REPRISE_P4RUNTIME" not in os.environ


@pytest.fixture
def address(in_memory: bool) -> Iterator[str]:
    """Where the switch listens."""
    if not in_memory:
        yield os.environ["REPRISE_P4RUNTIME"]
        return
    command = [str(TARGET / "debug/examples/memory_switch"), "127.0.0.1:0"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as switch:
        assert switch.stdout is not None
        assert switch.stdin is not None
        yield switch.stdout.readline().strip()
        # It serves until its input ends, and must then stop by itself.
        switch.stdin.close()
        assert switch.wait(timeout=20) == 0
