"""P4Runtime as finsy speaks it: what is written is read back, and only the primary writes."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import finsy as fy
import pytest
from finsy.grpcutil import GRPCStatusCode
from finsy.p4client import P4ClientError
from finsy.p4entity import P4ExternEntry, P4Replica
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct

FIXTURE = Path(__file__).resolve().parents[2] / "crates/control/p4runtime-server/tests/fixture"
P4INFO = FIXTURE / "bridge.p4info.txtpb"
# What a client that knows externs by their names adds to the program's P4Info.
GENERATORS = """
externs {
  extern_type_id: 0x81
  extern_type_name: "PacketGenerator"
  instances { preamble { id: 0x81000001 name: "load" alias: "load" } }
}
"""
DST = 0x02_00_00_00_00_0A
SRC = 0x02_00_00_00_00_0B
FRAME = DST.to_bytes(6) + SRC.to_bytes(6) + b"\x08\x00" + bytes(50)
PATIENCE_S = 120


def options(election_id: int = 10, p4info: Path = P4INFO) -> fy.SwitchOptions:
    """A controller that brings the pipeline along and always sets it."""
    return fy.SwitchOptions(
        p4info=p4info,
        p4blob=FIXTURE / "bridge.json",
        p4force=True,
        device_id=1,
        initial_election_id=election_id,
    )


@asynccontextmanager
async def controller(
    address: str, election_id: int = 10, p4info: Path = P4INFO
) -> AsyncIterator[fy.Switch]:
    """A controller that has a stream, an election id and, if primary, has set the pipeline."""
    async with fy.Switch("sw1", address, options(election_id, p4info)) as switch:
        yield switch


def run(address: str, check: Callable[[fy.Switch], Awaitable[None]], p4info: Path = P4INFO) -> None:
    """Runs a check as the only controller, on a fresh pipeline."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE_S), controller(address, p4info=p4info) as switch:
            assert switch.is_primary
            await check(switch)

    asyncio.run(main())


async def read_all(switch: fy.Switch, *entities: object) -> list[object]:
    """Everything that a read finds."""
    return [entity async for entity in switch.read(entities)]


# spec: capabilities, get-pipeline
def test_the_pipeline_and_the_version_are_read_back(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        assert str(switch.p4runtime_version) == "1.5.0"
        async with controller(address, election_id=1) as second:
            assert not second.is_primary
            assert second.p4info.p4info == switch.p4info.p4info

    run(address, check)


# spec: get-pipeline
def test_a_controller_sets_its_pipeline_where_it_finds_none(address: str) -> None:
    """Without `p4force` it asks for the cookie first, and goes on only where PI's error comes."""

    async def main() -> None:
        unforced = replace(options(), p4force=False)
        async with asyncio.timeout(PATIENCE_S), fy.Switch("sw1", address, unforced) as switch:
            await read_all(switch, fy.P4TableEntry("forward"))

    asyncio.run(main())


# spec: table-entry.matches
def test_table_entries_of_every_match_kind(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        entries = [
            fy.P4TableEntry(
                "forward",
                match=fy.Match({"dst": DST}),
                action=fy.Action("set_port", port=2),
                metadata=b"mine",
            ),
            fy.P4TableEntry(
                "routes",
                match=fy.Match({"src": (0x0200 << 32, 16)}),
                action=fy.Action("set_port", port=1),
            ),
            fy.P4TableEntry(
                "acl",
                match=fy.Match({"dst": (1, 1), "type": (1, 99), "port": 3}),
                action=fy.Action("discard"),
                priority=7,
            ),
        ]
        await switch.insert(entries)
        for entry in entries:
            found = await read_all(switch, fy.P4TableEntry(entry.table_id))
            assert len(found) == 1
            assert found[0].match == entry.match
            assert found[0].action == entry.action
            assert (found[0].priority, found[0].metadata) == (entry.priority, entry.metadata)

        entries[0].action = fy.Action("to_cpu")
        await switch.modify(entries[:1])
        found = await read_all(switch, entries[0])
        assert [entry.action for entry in found] == [fy.Action("to_cpu")]

        with pytest.raises(P4ClientError) as error:
            await switch.insert(entries)
        codes = {detail.canonical_code for detail in error.value.details.values()}
        assert codes == {GRPCStatusCode.ALREADY_EXISTS}

        await switch.delete_all()
        left = await read_all(switch, fy.P4TableEntry())
        assert {entry.table_id for entry in left} == {"verdicts"}
        assert all(entry.is_const for entry in left)

    run(address, check)


# spec: table-entry.default
def test_default_entries(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        default = fy.P4TableEntry("forward", is_default_action=True)
        assert (await read_all(switch, default))[0].action == fy.Action("NoAction")
        discard = fy.P4TableEntry("forward", is_default_action=True, action=fy.Action("discard"))
        await switch.modify([discard])
        assert (await read_all(switch, default))[0].action == fy.Action("discard")
        await switch.modify([default])
        assert (await read_all(switch, default))[0].action == fy.Action("NoAction")

    run(address, check)


# spec: register.cells
def test_registers(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        cells = [fy.P4RegisterEntry("slots", index=i, data=DST + i) for i in (0, 77, 131_071)]
        await switch.modify(cells)
        requests = [fy.P4RegisterEntry("slots", index=cell.index) for cell in cells]
        assert await read_all(switch, *requests) == cells
        everything = await read_all(switch, fy.P4RegisterEntry("slots"))
        assert len(everything) == 131_072
        assert everything[77] == cells[1]
        assert everything[78].data == 0

    run(address, check)


# spec: counter.indexed
def test_counters(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        data = fy.P4CounterData(byte_count=99, packet_count=3)
        cell = fy.P4CounterEntry("copies", index=5, data=data)
        await switch.modify([cell])
        assert await read_all(switch, fy.P4CounterEntry("copies", index=5)) == [cell]
        assert len(await read_all(switch, fy.P4CounterEntry("copies"))) == 16

        key = fy.P4TableEntry("forward", match=fy.Match({"dst": DST}))
        entry = fy.P4TableEntry(
            "forward", match=key.match, action=fy.Action("set_port", port=2), counter_data=data
        )
        await switch.insert([entry])
        direct = fy.P4DirectCounterEntry("forward_packets", table_entry=key)
        assert [found.data for found in await read_all(switch, direct)] == [data]

    run(address, check)


# spec: multicast.groups, clone-session.sessions
def test_groups_and_sessions(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        replicas = tuple(P4Replica(port=2, instance=i) for i in (3, 1, 2))
        group = fy.P4MulticastGroupEntry(9, replicas=replicas, metadata=b"nine")
        session = fy.P4CloneSessionEntry(100, replicas=replicas[:1], packet_length_bytes=64)
        await switch.insert([group, session])
        assert await read_all(switch, fy.P4MulticastGroupEntry()) == [group]
        assert await read_all(switch, fy.P4CloneSessionEntry()) == [session]

        group.replicas = replicas[1:]
        await switch.modify([group])
        assert await read_all(switch, fy.P4MulticastGroupEntry(9)) == [group]
        await switch.delete([group, session])
        assert await read_all(switch, fy.P4MulticastGroupEntry()) == []
        assert await read_all(switch, fy.P4CloneSessionEntry()) == []

    run(address, check)


def generator(**members: object) -> P4ExternEntry:
    entry, packed = Struct(), AnyMessage()
    entry.update(members)
    packed.Pack(entry)
    return P4ExternEntry(extern_type_id="PacketGenerator", extern_id="load", entry=packed)


def members_of(entry: object) -> dict[str, object]:
    assert isinstance(entry, P4ExternEntry)
    found = Struct()
    assert entry.entry.Unpack(found)
    return MessageToDict(found)


# spec: extern-entry.generators
def test_packet_generators(address: str, tmp_path: Path) -> None:
    p4info = tmp_path / "bridge.p4info.txtpb"
    p4info.write_text(P4INFO.read_text() + GENERATORS)
    frames = [b64encode(FRAME).decode()]

    async def check(switch: fy.Switch) -> None:
        load = generator(port=2, frames=frames, rate_pps=1000, count=5)
        await switch.insert([load])
        (found,) = await read_all(switch, generator())
        members = members_of(found)
        assert (members["port"], members["frames"], members["count"]) == (2, frames, 5)
        assert (members["state"], members["running"]) == ("stopped", False)

        await switch.modify([generator(running=True, count=None)])
        (found,) = await read_all(switch, generator())
        members = members_of(found)
        assert (members["state"], members["count"]) == ("running", None)

        with pytest.raises(P4ClientError) as error:
            await switch.modify([generator(port=511)])
        codes = {detail.canonical_code for detail in error.value.details.values()}
        assert codes == {GRPCStatusCode.INVALID_ARGUMENT}

        await switch.delete([generator()])
        assert await read_all(switch, generator()) == []

    run(address, check, p4info)


# spec: packet-io.in, packet-io.out
def test_packets_go_out_and_come_in(address: str, in_memory: bool) -> None:
    if not in_memory:
        pytest.skip("NOT TESTED, only the switch in memory loops port 3 back to port 0")

    async def check(switch: fy.Switch) -> None:
        entry = fy.P4TableEntry(
            "forward",
            match=fy.Match({"dst": DST}),
            action=fy.Action("to_cpu"),
        )
        await switch.insert([entry])
        packets = switch.read_packets()
        await switch.write([fy.P4PacketOut(FRAME, egress_port=3, _pad=0)])
        packet = await anext(packets)
        assert packet.payload == FRAME
        assert packet["ingress_port"] == 0

    run(address, check)


# spec: arbitration.only-primary
def test_a_controller_with_a_lower_election_id_may_read_but_not_write(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        cell = fy.P4RegisterEntry("slots", index=1, data=5)
        async with controller(address, election_id=9) as second:
            assert not second.is_primary
            assert second.primary_id == switch.election_id
            with pytest.raises(P4ClientError) as error:
                await second.modify([cell])
            assert error.value.code == GRPCStatusCode.PERMISSION_DENIED
            await switch.modify([cell])
            assert await read_all(second, fy.P4RegisterEntry("slots", index=1)) == [cell]

    run(address, check)
