"""End-to-end tests: the real programs on the real switch in real namespaces."""

from pathlib import Path

import pytest

from lab.switch import RECIRCULATION_PROGRAM, REPLICATION_PROGRAM

PROGRAMS = [RECIRCULATION_PROGRAM, REPLICATION_PROGRAM]


@pytest.fixture(params=PROGRAMS, ids=lambda program: program.stem)
def program(request: pytest.FixtureRequest, namespaces: None) -> Path:
    """Each SFU program in turn."""
    path: Path = request.param
    return path
