"""A primary controller that has brought its program."""

from collections.abc import Iterator

import pytest
from client import Controller, config, controller
from switch import BRIDGE, Switch


@pytest.fixture
def primary(switch: Switch) -> Iterator[Controller]:
    """Of the program with every entity."""
    with controller(switch.grpc) as found:
        found.set_pipeline(config())
        yield found


@pytest.fixture
def bridge(switch: Switch) -> Iterator[Controller]:
    """Of the program with every match kind."""
    with controller(switch.grpc) as found:
        found.set_pipeline(config(BRIDGE))
        yield found
