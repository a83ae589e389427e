"""What clients have: a switch each."""

from collections.abc import Iterator

import pytest
from switch import Switch, running


@pytest.fixture
def switch(request: pytest.FixtureRequest) -> Iterator[Switch]:
    """A switch that a controller brings its program to, unless the test is marked with one."""
    program = request.node.get_closest_marker("program")
    with running(*(map(str, program.args) if program else ())) as started:
        yield started
