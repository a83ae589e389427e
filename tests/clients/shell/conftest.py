"""p4runtime-shell, connected to a switch on which it sets a program."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import p4runtime_sh.shell as sh
import pytest
from p4runtime_sh.shell import FwdPipeConfig
from switch import BRIDGE, DEVICE_ID, EVERY_ENTITY, Switch

Start = Callable[..., None]


def pipeline(program: Path) -> FwdPipeConfig:
    files = (program.with_suffix(suffix) for suffix in (".p4info.txtpb", ".json"))
    return FwdPipeConfig(*map(str, files))


@pytest.fixture
def start(switch: Switch) -> Iterator[Start]:
    """Yields a function that begins a session.

    The function first ends the previous session, because sh can have only one.
    """
    with ExitStack() as ends:

        def begin(**options: object) -> None:
            ends.close()
            # In the shell `verbose=False` would turn off canonical bytestrings, too.
            sh.setup(device_id=DEVICE_ID, grpc_addr=switch.grpc, verbose=True, **options)
            ends.callback(sh.teardown)

        yield begin


@pytest.fixture
def every_entity(start: Start) -> None:
    """Begins a session as primary and sets the program that has every kind of entity."""
    start(config=pipeline(EVERY_ENTITY))


@pytest.fixture
def bridge(start: Start) -> None:
    """Begins a session as primary and sets the program that has every match kind."""
    start(config=pipeline(BRIDGE))
