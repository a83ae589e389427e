"""Tests that reads return what was written, for every entity that finsy knows.

The program under test has all of these entities.
"""

import finsy as fy
import pytest
from controller import EVERY_ENTITY, controller, first_after, read_all, refused, run
from finsy.grpcutil import GRPCStatusCode
from finsy.p4entity import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4BackupReplica,
    P4CounterData,
    P4DirectMeterEntry,
    P4IndirectAction,
    P4Member,
    P4MeterConfig,
    P4MeterCounterData,
    P4MeterEntry,
    P4Replica,
    P4TableAction,
    P4ValueSetEntry,
    P4ValueSetMember,
)
from finsy.proto.stratum1.p4_role_config_pb2 import P4RoleConfig

DST, SRC = 7, 9
RATES = P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
NO_COUNTS = P4CounterData(byte_count=0, packet_count=0)


def frame(kind: int) -> bytes:
    """Makes a frame: addresses, and a number that tells the program which extern to call."""
    return DST.to_bytes(6) + SRC.to_bytes(6) + b"\x08\x00" + bytes((0, 0, 0, kind)) + bytes(46)


# spec: action-profile.members, action-profile.groups
def test_members_and_groups(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        members = [
            P4ActionProfileMember(
                "spread", member_id=number, action=P4TableAction("mark", value=number)
            )
            for number in (1, 2)
        ]
        group = P4ActionProfileGroup(
            "spread", group_id=5, members=[P4Member(1, weight=1), P4Member(2, weight=(3, 1))]
        )
        entry = fy.P4TableEntry(
            "many", match=fy.Match({"dst_addr": DST}), action=P4IndirectAction(group_id=5)
        )
        await switch.insert(members)
        await switch.insert([group])
        await switch.insert([entry])
        assert await read_all(switch, P4ActionProfileMember()) == members
        assert await read_all(switch, P4ActionProfileGroup()) == [group]
        (found,) = await read_all(switch, fy.P4TableEntry("many"))
        assert found.action == entry.action

        assert await refused(switch.delete([group])) == {GRPCStatusCode.FAILED_PRECONDITION}
        group.members = [P4Member(2, weight=1)]
        await switch.modify([group])
        assert await read_all(switch, P4ActionProfileGroup("spread", group_id=5)) == [group]
        await switch.delete([entry])
        await switch.delete([group])
        await switch.delete(members)
        assert await read_all(switch, P4ActionProfileMember(), P4ActionProfileGroup()) == []

    run(address, EVERY_ENTITY, check)


# spec: action-profile.one-shot
def test_one_shots(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        action = P4IndirectAction(
            [(2, P4TableAction("mark", value=1)), ((1, 1), P4TableAction("send", port=2))]
        )
        entry = fy.P4TableEntry("few", match=fy.Match({"dst_addr": DST}), action=action)
        await switch.insert([entry])
        (found,) = await read_all(switch, fy.P4TableEntry("few"))
        assert found.action == action

    run(address, EVERY_ENTITY, check)


# spec: meter.indexed, meter.direct, meter.counter-data, table-entry.direct-meter
def test_meters(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        cell = P4MeterEntry("rates", index=3, config=RATES)
        await switch.modify([cell])
        assert await read_all(switch, P4MeterEntry("rates", index=3)) == [cell]
        assert len(await read_all(switch, P4MeterEntry())) == 8
        zero = P4MeterCounterData(green=NO_COUNTS, yellow=NO_COUNTS, red=NO_COUNTS)
        asked = P4MeterEntry("rates", index=3, counter_data=zero)
        (found,) = await read_all(switch, asked)
        assert (found.config, found.counter_data) == (RATES, zero)

        entry = fy.P4TableEntry(
            "limited",
            match=fy.Match({"src_addr": SRC}),
            action=fy.Action("metered"),
            meter_config=RATES,
            idle_timeout_ns=10**12,
        )
        await switch.insert([entry])
        key = fy.P4TableEntry("limited", match=entry.match)
        direct = P4DirectMeterEntry(table_entry=key)
        (found,) = await read_all(switch, direct)
        assert found.config == RATES
        wider = P4MeterConfig(cir=10, cburst=20, pir=30, pburst=40)
        await switch.modify([P4DirectMeterEntry(table_entry=key, config=wider)])
        wanted = fy.P4TableEntry("limited", meter_config=RATES, meter_counter_data=zero)
        (found,) = await read_all(switch, wanted)
        assert (found.meter_config, found.meter_counter_data) == (wider, zero)
        assert found.idle_timeout_ns == entry.idle_timeout_ns

        late = P4MeterConfig(cir=10, cburst=20, pir=1, pburst=40)
        codes = await refused(switch.modify([P4MeterEntry("rates", index=3, config=late)]))
        assert codes == {GRPCStatusCode.INVALID_ARGUMENT}

    run(address, EVERY_ENTITY, check)


# spec: value-set.members
def test_value_sets(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        trunks = P4ValueSetEntry(
            "trunks", members=[P4ValueSetMember(0x22F3), P4ValueSetMember(0x893B)]
        )
        await switch.modify([trunks])
        assert await read_all(switch, P4ValueSetEntry("trunks", members=[])) == [trunks]
        pairs = P4ValueSetEntry(
            "port_trunks", members=[P4ValueSetMember(ether_type=(0x9000, 0xFF00), port=1)]
        )
        await switch.modify([pairs])
        assert await read_all(switch, P4ValueSetEntry("port_trunks", members=[])) == [pairs]
        many = P4ValueSetEntry("trunks", members=[P4ValueSetMember(value) for value in range(5)])
        assert await refused(switch.modify([many])) == {GRPCStatusCode.RESOURCE_EXHAUSTED}

    run(address, EVERY_ENTITY, check)


# spec: digest.lists, digest.acknowledgements
def test_digests(address: str, in_memory: bool) -> None:
    if not in_memory:
        pytest.skip("NOT TESTED, only the switch in memory loops port 3 back to port 0")

    async def check(switch: fy.Switch) -> None:
        entry = fy.P4DigestEntry(
            "seen_t", max_list_size=1, max_timeout_ns=10**9, ack_timeout_ns=10**12
        )
        await switch.insert([entry])
        assert await read_all(switch, fy.P4DigestEntry()) == [entry]
        lists = switch.read_digests("seen_t")
        for _ in range(2):
            told = await first_after(lists, switch, fy.P4PacketOut(frame(1), egress_port=3, _pad=0))
            assert told.data == [{"src_addr": SRC, "port": 0, "kind": 1}]
            await switch.write([told.ack()])
        await switch.delete([entry])
        assert await read_all(switch, fy.P4DigestEntry()) == []

    run(address, EVERY_ENTITY, check)


# spec: multicast.backup-replicas
def test_backup_replicas(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        backups = [P4BackupReplica(2, instance=7), P4BackupReplica(3, instance=8)]
        group = fy.P4MulticastGroupEntry(
            1,
            replicas=(P4Replica(1, instance=6, backup_replicas=backups), P4Replica(0, instance=1)),
        )
        await switch.insert([group])
        assert await read_all(switch, fy.P4MulticastGroupEntry()) == [group]

    run(address, EVERY_ENTITY, check)


# spec: read.wildcards
def test_what_a_wildcard_finds_is_deleted(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        entry = fy.P4TableEntry(
            "ordered",
            match=fy.Match({"dst_addr": (1, 1)}),
            action=fy.Action("mark", value=1),
            priority=3,
        )
        member = P4ActionProfileMember("shared", member_id=1, action=P4TableAction("mark", value=1))
        await switch.insert([entry, member, fy.P4DigestEntry("noted_t", max_list_size=3)])
        every = [fy.P4TableEntry("ordered"), P4ActionProfileGroup(), P4ActionProfileMember()]
        await switch.delete_many(every)
        digests = [fy.P4DigestEntry("noted_t"), fy.P4DigestEntry("seen_t")]
        await switch.delete(digests, strict=False)
        assert await read_all(switch, *every, fy.P4DigestEntry()) == []

    run(address, EVERY_ENTITY, check)


# spec: role-config.config
def test_a_role_writes_what_is_its_own(address: str) -> None:
    async def check(switch: fy.Switch) -> None:
        ids = [switch.p4info.tables[name].id for name in ("limited", "ordered")]
        config = P4RoleConfig(exclusive_p4_ids=ids[:1], shared_p4_ids=ids[1:])
        role = {"p4force": False, "role_name": "meters", "role_config": config}
        async with controller(address, EVERY_ENTITY, **role) as meters:
            assert meters.is_primary
            entry = fy.P4TableEntry(
                "limited", match=fy.Match({"src_addr": SRC}), action=fy.Action("metered")
            )
            await meters.insert([entry])
            other = fy.P4TableEntry(
                "few",
                match=fy.Match({"dst_addr": DST}),
                action=P4IndirectAction([(1, P4TableAction("mark", value=1))]),
            )
            codes = await refused(meters.insert([other]))
            assert codes == {GRPCStatusCode.PERMISSION_DENIED}
        await switch.insert([other])

    run(address, EVERY_ENTITY, check)
