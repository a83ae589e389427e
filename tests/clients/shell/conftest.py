"""A shell that has brought the program with every entity."""

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
    """Begins a session; the shell's module has one at a time."""
    with ExitStack() as ends:

        def begin(**options: object) -> None:
            ends.close()
            # Without its words it writes no canonical bytestrings either: its two options are one.
            sh.setup(device_id=DEVICE_ID, grpc_addr=switch.grpc, verbose=True, **options)
            ends.callback(sh.teardown)

        yield begin


@pytest.fixture
def every_entity(start: Start) -> None:
    """As primary, with the program with every entity."""
    start(config=pipeline(EVERY_ENTITY))


@pytest.fixture
def bridge(start: Start) -> None:
    """As primary, with the program with every match kind."""
    start(config=pipeline(BRIDGE))
