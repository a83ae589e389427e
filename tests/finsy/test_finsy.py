"""Tests P4Runtime with finsy: reads return what was written; only the primary may write."""

from base64 import b64encode
from pathlib import Path

import finsy as fy
import pytest
from controller import BRIDGE, controller, first_after, read_all, refused, run
from finsy.grpcutil import GRPCStatusCode
from finsy.p4client import P4ClientError
from finsy.p4entity import P4ExternEntry, P4Replica
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct

# What a client that uses packet generators adds to the program's P4Info.
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


# spec: capabilities, get-pipeline
def test_the_pipeline_and_the_version_are_read_back(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        assert str(switch.p4runtime_version) == "1.5.0"
        async with controller(address, BRIDGE, initial_election_id=1) as second:
            assert not second.is_primary
            assert second.p4info.p4info == switch.p4info.p4info

    run(address, BRIDGE, check)


# spec: get-pipeline
def test_a_controller_sets_its_pipeline_where_it_finds_none(address: str) -> None:
    """Without `p4force`, finsy first asks for the cookie.

    It sets the program only after the error that PI (p4lang's P4Runtime server) returns.
    """

    async def check(switch: fy.Switch) -> None:
        await read_all(switch, fy.P4TableEntry("forward"))

    run(address, BRIDGE, check, p4force=False)


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

        assert await refused(switch.insert(entries)) == {GRPCStatusCode.ALREADY_EXISTS}

        await switch.delete_all()
        left = await read_all(switch, fy.P4TableEntry())
        assert {entry.table_id for entry in left} == {"verdicts"}
        assert all(entry.is_const for entry in left)

    run(address, BRIDGE, check)


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

    run(address, BRIDGE, check)


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

    run(address, BRIDGE, check)


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

    run(address, BRIDGE, check)


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

    run(address, BRIDGE, check)


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
    p4info.write_text(BRIDGE.with_suffix(".p4info.txtpb").read_text() + GENERATORS)
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

        wrong = switch.modify([generator(port=511)])
        assert await refused(wrong) == {GRPCStatusCode.INVALID_ARGUMENT}

        await switch.delete([generator()])
        assert await read_all(switch, generator()) == []

    run(address, BRIDGE, check, p4info=p4info)


# spec: packet-io.in, packet-io.out
def test_packets_go_out_and_come_in(address: str, in_memory: bool) -> None:
    if not in_memory:
        pytest.skip("NOT TESTED, only the switch in memory loops port 3 back to port 0")

    async def check(switch: fy.Switch) -> None:
        entry = fy.P4TableEntry("forward", match=fy.Match({"dst": DST}), action=fy.Action("to_cpu"))
        await switch.insert([entry])
        packets = switch.read_packets()
        packet = await first_after(packets, switch, fy.P4PacketOut(FRAME, egress_port=3, _pad=0))
        assert packet.payload == FRAME
        assert packet["ingress_port"] == 0

    run(address, BRIDGE, check)


# spec: arbitration.only-primary
def test_a_controller_with_a_lower_election_id_may_read_but_not_write(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        cell = fy.P4RegisterEntry("slots", index=1, data=5)
        async with controller(address, BRIDGE, initial_election_id=9) as second:
            assert not second.is_primary
            assert second.primary_id == switch.election_id
            with pytest.raises(P4ClientError) as error:
                await second.modify([cell])
            assert error.value.code == GRPCStatusCode.PERMISSION_DENIED
            await switch.modify([cell])
            assert await read_all(second, fy.P4RegisterEntry("slots", index=1)) == [cell]

    run(address, BRIDGE, check)
