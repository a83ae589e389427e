"""A P4Runtime controller made with finsy, and functions that the tests share."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import finsy as fy
import pytest
from finsy.grpcutil import GRPCStatusCode
from finsy.p4client import P4ClientError

ROOT = Path(__file__).resolve().parents[2]
BRIDGE = ROOT / "crates/control/p4runtime-server/tests/fixture/bridge"
"""The path of a program with every match kind, without the endings `.p4info.txtpb` and `.json` of
the program's two files."""
EVERY_ENTITY = ROOT / "testdata/compiler/ok/every_entity"
"""The path of a program with one of every entity, without the same two endings."""
PATIENCE_S = 120

Told = TypeVar("Told")
Check = Callable[[fy.Switch], Awaitable[object]]


def controller(address: str, program: Path, **options: object) -> fy.Switch:
    """Makes a controller that always sets the program, unless `options` say otherwise."""
    usual: dict[str, object] = {
        "p4info": program.with_suffix(".p4info.txtpb"),
        "p4blob": program.with_suffix(".json"),
        "p4force": True,
        "device_id": 1,
    }
    return fy.Switch("sw1", address, fy.SwitchOptions(**(usual | options)))


def run(address: str, program: Path, check: Check, **options: object) -> None:
    """Connects a primary controller, which sets the program, and calls `check` with it."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), controller(address, program, **options) as switch:
            assert switch.is_primary
            await check(switch)

    asyncio.run(main())


async def read_all(switch: fy.Switch, *entities: object) -> list[object]:
    """Reads from the switch; returns every entity that matches one of these."""
    return [entity async for entity in switch.read(entities)]


async def first_after(told: AsyncIterator[Told], switch: fy.Switch, out: fy.P4PacketOut) -> Told:
    """Sends a packet; returns what the iterator gives next.

    finsy opens an iterator's queue at the first `anext`, and drops what the switch sent before. So
    this function first asks for the next item and only then sends the packet.
    """
    asked = asyncio.ensure_future(anext(told))
    await asyncio.sleep(0)
    await switch.write([out])
    return await asked


async def refused(writing: Awaitable[None]) -> set[GRPCStatusCode]:
    """Expects a write to fail; returns the codes of its errors."""
    with pytest.raises(P4ClientError) as error:
        await writing
    return {detail.canonical_code for detail in error.value.details.values()}
