"""Starts a switch for each test of a client."""

from collections.abc import Iterator

import pytest
from switch import Switch, running


@pytest.fixture
def switch(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """A switch without a program, or with the program that the test's mark `program` names."""
    program = request.node.get_closest_marker("program")
    with running(*(map(str, program.args) if program else ())) as started:
        yield started
