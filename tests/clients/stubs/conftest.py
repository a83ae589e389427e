"""A primary controller that has set its program."""

from collections.abc import Iterator

import pytest
from client import Controller, config, controller
from switch import BRIDGE, Switch


@pytest.fixture
def primary(switch: Switch) -> Iterator[Controller]:
    """A primary controller with the program that has every kind of entity."""
    with controller(switch.grpc) as found:
        found.set_pipeline(config())
        yield found


@pytest.fixture
def bridge(switch: Switch) -> Iterator[Controller]:
    """A primary controller with the program that has every match kind."""
    with controller(switch.grpc) as found:
        found.set_pipeline(config(BRIDGE))
        yield found
