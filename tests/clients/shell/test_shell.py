"""Every operation of p4runtime-shell: a read returns what was written, errors have a message."""

import contextlib
import subprocess
import sys
from pathlib import Path

import p4runtime_sh.shell as sh
import pytest
from conftest import Start, pipeline
from p4runtime_sh.context import P4Type
from p4runtime_sh.global_options import global_options
from p4runtime_sh.p4runtime import P4RuntimeException, P4RuntimeWriteException
from switch import BRIDGE, DEVICE_ID, EVERY_ENTITY, LOOPBACK_MAC, PATIENCE_S, Switch

DST, SRC = "02:00:00:00:00:07", "02:00:00:00:00:09"
HOUR_NS = 3600 * 10**9
RATES = {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4}
TO_CONTROLLER, TO_DIGEST = 0xFF, 1


def one(entity: object) -> object:
    """Reads, and returns the only entity that is found."""
    (found,) = entity.read()
    return found


def found(entity: object) -> list[str]:
    """Reads, and returns all entities that are found, as the shell prints them."""
    return [str(one) for one in entity.read()]


@contextlib.contextmanager
def refused(code: str) -> object:
    """Expects that the write in the `with` block is refused with this code and a reason."""
    with pytest.raises(P4RuntimeWriteException) as error:
        yield
    ((_, said),) = error.value.errors
    assert f"At index 0: {code}, '{said.message}'" in str(error.value)
    assert said.message


def entry(table: str, action: str | None = None, **arguments: str) -> sh.TableEntry:
    written = sh.TableEntry(table)
    if action:
        written.action = sh.Action(action)
        written.action.set(**arguments)
    return written


def limited() -> sh.TableEntry:
    # The shell finds an entry's direct resources only by the table's full name.
    written = entry("I.limited", "I.metered")
    written.match["src_addr"] = SRC
    return written


# spec: set-pipeline.verify, get-pipeline, capabilities
def test_the_pipeline_is_set_and_the_p4info_read(every_entity: None) -> None:
    assert sh.APIVersion() == "1.5.0"
    assert {table.name for table in sh.P4Objects(P4Type.table)} >= {"I.limited", "I.few"}
    p4info = sh.client.get_p4info()
    assert p4info == sh.context.p4info
    with pytest.raises(P4RuntimeException, match="INVALID_ARGUMENT"):
        sh.client.set_fwd_pipe_config(pipeline(EVERY_ENTITY).p4info, pipeline(BRIDGE).bin)
    assert sh.client.get_p4info() == p4info


# spec: table-entry.matches, table-entry.insert-modify-delete
@pytest.mark.parametrize("canonical", [True, False], ids=["canonical", "padded"])
def test_entries_of_every_match_kind(bridge: None, canonical: bool) -> None:
    global_options["canonical_bytestrings"] = canonical
    try:
        exact = entry("forward", "set_port", port="2")
        exact.match["dst"] = DST
        exact.metadata = b"mine"
        prefix = entry("routes", "set_port", port="1")
        prefix.match["src"] = "02:0f:00:00:00:00/12"
        mixed = entry("acl", "discard")
        mixed.match.set(dst="0x10&&&0xf0", type="0x10..0x800", port="3")
        mixed.priority = 7
        every = [exact, prefix, mixed]
        for written in every:
            written.insert()
    finally:
        global_options["canonical_bytestrings"] = True
    for written in every:
        read = one(sh.TableEntry(written.name))
        assert read.priority == written.priority
        assert read.metadata == written.metadata
        assert read.action._param_values.keys() == written.action._param_values.keys()
        # The switch returns the shortest bytestring, whichever was written.
        again = [str(field) for field in one(written).match._mk.values()]
        assert [str(field) for field in read.match._mk.values()] == again
        if canonical:
            assert str(read) == str(written)

    exact.action = sh.Action("set_port")
    exact.action["port"] = "3"
    exact.modify()
    assert one(exact).action["port"].value == b"\3"
    for written in every:
        written.delete()
        assert found(sh.TableEntry(written.name)) == []
    with refused("NOT_FOUND"):
        exact.delete()


# spec: table-entry.default
def test_default_entries(bridge: None) -> None:
    default = entry("forward", "discard")
    default.is_default = True
    default.modify()
    asked = sh.TableEntry("forward")(is_default=True)
    assert one(asked).action.action_name in ("discard", "ingress.discard")
    asked.modify()
    assert one(asked).action.action_name == "NoAction"
    with refused("INVALID_ARGUMENT"):
        default.insert()
    constant = entry("routes", "set_port", port="1")
    constant.is_default = True
    with refused("PERMISSION_DENIED"):
        constant.modify()


# spec: table-entry.constant
def test_constant_entries(bridge: None) -> None:
    verdicts = list(sh.TableEntry("verdicts").read())
    assert len(verdicts) == 2
    with refused("PERMISSION_DENIED"):
        verdicts[0].delete()


# spec: table-entry.direct-counter, table-entry.direct-meter
def test_direct_resources_in_entries(every_entity: None) -> None:
    written = limited()
    written.counter_data.packet_count = 3
    written.counter_data.byte_count = 99
    for name, value in RATES.items():
        setattr(written.meter_config, name, value)
    written.insert()
    assert one(sh.TableEntry("limited"))._counter_data is None
    asked = sh.TableEntry("limited")
    _ = asked.counter_data, asked.meter_config
    read = one(asked)
    assert (read.counter_data.packet_count, read.counter_data.byte_count) == (3, 99)
    assert {name: getattr(read.meter_config, name) for name in RATES} == RATES
    written.clear_counter_data()
    written.clear_meter_config()
    written.modify()
    read = one(asked)
    assert read.counter_data.packet_count == 3
    assert read._meter_config is None


# spec: table-entry.idle-timeout
def test_idle_timeouts(every_entity: None) -> None:
    written = limited()
    written.idle_timeout_ns = HOUR_NS
    written.insert()
    asked = sh.TableEntry("limited")
    assert one(asked).idle_timeout_ns == HOUR_NS
    _ = asked.time_since_last_hit
    assert 0 < one(asked).time_since_last_hit.elapsed_ns < HOUR_NS
    written.idle_timeout_ns = 10**6
    written.modify()
    told = sh.client.get_stream_packet("idle_timeout_notification", timeout=PATIENCE_S)
    (idle,) = told.idle_timeout_notification.table_entry
    assert idle.table_id == written.id
    without = entry("begun", "mark", value="1")
    without.match["dst_addr"] = DST
    without.idle_timeout_ns = 1
    with refused("INVALID_ARGUMENT"):
        without.insert()


# spec: counter.indexed, counter.direct
def test_counters(every_entity: None) -> None:
    cell = sh.CounterEntry("counts")(index=5, packet_count=3, byte_count=99)
    cell.modify()
    assert [str(one(cell))] == [str(cell)]
    every = sh.CounterEntry("counts")
    assert [read.packet_count for read in every.read()] == [0] * 5 + [3, 0, 0]
    cell.index = 8
    with refused("OUT_OF_RANGE"):
        cell.modify()

    written = limited()
    written.insert()
    direct = sh.DirectCounterEntry("own_count")(table_entry=written, packet_count=4)
    direct.modify()
    assert one(sh.DirectCounterEntry("own_count")).packet_count == 4
    assert one(sh.DirectCounterEntry("own_count")(table_entry=written)).packet_count == 4
    written.delete()
    with refused("NOT_FOUND"):
        direct.modify()


# spec: meter.indexed, meter.direct
def test_meters(every_entity: None) -> None:
    cell = sh.MeterEntry("rates")(index=3, **RATES)
    cell.modify()
    assert [str(one(cell))] == [str(cell)]
    every = list(sh.MeterEntry("rates").read())
    assert [read._config is not None for read in every] == [n == 3 for n in range(8)]
    cell.clear_config()
    cell.modify()
    assert one(cell)._config is None
    late = sh.MeterEntry("rates")(index=3, **(RATES | {"cir": 9}))
    with refused("INVALID_ARGUMENT"):
        late.modify()

    written = limited()
    written.insert()
    direct = sh.DirectMeterEntry("own_rate")(table_entry=written, **RATES)
    direct.modify()
    read = one(sh.DirectMeterEntry("own_rate"))
    assert {name: getattr(read, name) for name in RATES} == RATES


def member(number: int, value: str, profile: str = "spread") -> sh.ActionProfileMember:
    written = sh.ActionProfileMember(profile)(member_id=number, action="mark")
    written.action["value"] = value
    return written


# spec: action-profile.members, action-profile.groups, action-profile.watch-port
def test_members_and_groups(every_entity: None) -> None:
    first, second = member(1, "1"), member(2, "2")
    first.insert()
    second.insert()
    assert found(sh.ActionProfileMember("spread")) == [str(first), str(second)]
    group = sh.ActionProfileGroup("spread")(group_id=5)
    group.add(1).add(2, weight=3, watch_port=b"\2").insert()
    assert found(sh.ActionProfileGroup("spread")) == [str(group)]

    many = sh.TableEntry("many")(group_id=5)
    many.match["dst_addr"] = DST
    many.insert()
    assert found(sh.TableEntry("many")) == [str(many)]
    with refused("FAILED_PRECONDITION"):
        group.delete()
    with refused("FAILED_PRECONDITION"):
        first.delete()
    many.member_id = 2
    many.modify()
    assert found(sh.TableEntry("many")) == [str(many)]

    group.clear()
    group.add(2).modify()
    assert found(sh.ActionProfileGroup("spread")(group_id=5)) == [str(group)]
    first.action["value"] = "9"
    first.modify()
    assert one(first).action["value"].value == b"\x09"
    many.delete()
    for written in (group, first, second):
        written.delete()
        assert found(written) == []
    with refused("NOT_FOUND"):
        sh.ActionProfileGroup("spread")(group_id=6).add(9).insert()


# spec: action-profile.members
def test_an_action_profile_without_a_selector(every_entity: None) -> None:
    member(3, "7", "shared").insert()
    direct = sh.TableEntry("one")(member_id=3)
    direct.match["dst_addr"] = DST
    direct.insert()
    assert found(sh.TableEntry("one")) == [str(direct)]
    with refused("INVALID_ARGUMENT"):
        sh.ActionProfileGroup("shared")(group_id=1).add(3).insert()


# spec: action-profile.one-shot
def test_one_shots(every_entity: None) -> None:
    written = sh.TableEntry("few")
    written.match["dst_addr"] = DST
    mark, send = sh.Action("mark"), sh.Action("send")
    mark["value"], send["port"] = "1", "2"
    written.oneshot = sh.Oneshot("few").add(mark, weight=2).add(send, watch_port=b"\2")
    written.insert()
    assert found(sh.TableEntry("few")) == [str(written)]
    # The selector's groups have room for a weight of 4 in all.
    written.oneshot.actions[0].weight = 5
    with refused("INVALID_ARGUMENT"):
        written.modify()


# spec: multicast.groups, clone-session.sessions
def test_groups_and_sessions(every_entity: None) -> None:
    group = sh.MulticastGroupEntry(9).add(2, 3).add(2, 1).add(1)
    group.insert()
    session = sh.CloneSessionEntry(100).add(1, 1)
    session.cos, session.packet_length_bytes = 3, 64
    session.insert()
    # A wildcard read of groups finds no sessions, and a wildcard read of sessions finds no groups.
    assert found(sh.MulticastGroupEntry()) == [str(group)]
    assert found(sh.CloneSessionEntry()) == [str(session)]
    group.replicas.pop()
    group.modify()
    session.replicas = []
    session.modify()
    assert found(sh.MulticastGroupEntry(9)) == [str(group)]
    assert found(sh.CloneSessionEntry(100)) == [str(session)]
    with refused("ALREADY_EXISTS"):
        group.insert()
    for written in (group, session):
        written.delete()
        assert found(written) == []
        with refused("NOT_FOUND"):
            written.modify()


def packet(switch: Switch, to: int, kind: int) -> sh.PacketOut:
    return sh.PacketOut(switch.frame(to, kind), egress_port="3", _pad="0")


# spec: packet-io.in, packet-io.out
def test_packets_go_out_and_come_in(every_entity: None, switch: Switch) -> None:
    packets = sh.PacketIn()
    packet(switch, 2, TO_CONTROLLER).send()
    told = packets.packet_in_queue.get(timeout=PATIENCE_S)
    assert {one.metadata_id: one.value for one in told.packet.metadata} == {1: b"\2", 2: b"\0"}
    assert told.packet.payload[42:] == switch.frame(2, TO_CONTROLLER)[42:]
    # A packet-out to a port that does not exist is lost; the next packet-out is not.
    sh.PacketOut(b"\0" * 64, egress_port="77", _pad="0").send()
    packet(switch, 3, TO_CONTROLLER).send()
    assert packets.packet_in_queue.get(timeout=PATIENCE_S).packet.metadata[0].value == b"\3"


# spec: stream.errors
def test_a_packet_out_that_cannot_be_sent_is_told(every_entity: None, switch: Switch) -> None:
    wrong = packet(switch, 2, TO_CONTROLLER)
    wrong.metadata.clear()
    wrong.send()
    told = sh.client.get_stream_packet("unknown", timeout=PATIENCE_S)
    assert told.error.packet_out.packet_out.payload == wrong.payload
    assert told.error.message


# spec: digest.lists
def test_digests(every_entity: None, switch: Switch) -> None:
    seen = sh.DigestEntry("seen_t")
    seen.max_list_size, seen.ack_timeout_ns = 1, HOUR_NS
    seen.insert()
    assert found(sh.DigestEntry("seen_t")) == [str(seen)]
    lists = sh.DigestList()
    # The shell acknowledges each list, so the switch sends the same digest again.
    for _ in range(2):
        packet(switch, 2, TO_DIGEST).send()
        told = lists.digest_list_queue.get(timeout=PATIENCE_S).digest
        (digest,) = told.data
        values = [member.bitstring for member in digest.struct.members]
        assert values == [LOOPBACK_MAC, b"\2", b"\1"]
    seen.max_list_size = 9
    seen.modify()
    assert found(seen) == [str(seen)]
    seen.delete()
    assert found(seen) == []
    with refused("NOT_FOUND"):
        seen.delete()
    # After the deletion no digest is sent for the first packet, but the packet-in for the second
    # packet still comes.
    packet(switch, 3, TO_DIGEST).send()
    packet(switch, 3, TO_CONTROLLER).send()
    assert sh.client.get_stream_packet("packet", timeout=PATIENCE_S)
    assert lists.digest_list_queue.empty()


# spec: atomicity.continue
def test_a_file_of_updates_is_written(every_entity: None, tmp_path: Path) -> None:
    (slots,) = (one.preamble.id for one in sh.client.get_p4info().registers if one.size == 8)
    updates = tmp_path / "updates.txtpb"
    text = (
        "updates {{ type: MODIFY entity {{ register_entry {{ register_id: {} index {{ index: {} }} "
    )
    text += 'data {{ bitstring: "\\x07" }} }} }} }}\n'
    updates.write_text("".join(text.format(slots, index) for index in (1, 2)))
    sh.Write(str(updates))
    asked = sh.p4runtime_pb2.Entity()
    asked.register_entry.register_id = slots
    cells = [one for answer in sh.client.read_one(asked) for one in answer.entities]
    values = [cell.register_entry.data.bitstring for cell in cells]
    assert values == [b"\0", b"\7", b"\7"] + [b"\0"] * 5

    # Both updates are made to fail: if only some updates of a batch failed, the shell would never
    # stop reading the errors.
    updates.write_text(text.format(slots, 8) + text.format(slots, 9))
    with pytest.raises(P4RuntimeWriteException) as error:
        sh.Write(str(updates))
    assert [index for index, _ in error.value.errors] == [0, 1]
    assert "At index 1: OUT_OF_RANGE" in str(error.value)


# spec: arbitration.only-primary, arbitration.128-bit
def test_a_shell_with_a_lower_election_id_reads_and_does_not_write(
    every_entity: None, switch: Switch, capsys: pytest.CaptureFixture[str]
) -> None:
    limited().insert()
    # The first session's election id has 1 in its high 64 bits, so it is larger.
    second = sh.P4RuntimeClient(DEVICE_ID, switch.grpc, (0, 2**64 - 1))
    try:
        assert "You are not the primary client" in capsys.readouterr().out
        assert second.get_p4info() == sh.context.p4info
        with pytest.raises(sh.grpc.RpcError if hasattr(sh, "grpc") else Exception) as error:
            second.write_update(sh.p4runtime_pb2.Update())
        assert error.value.code().name == "PERMISSION_DENIED"
    finally:
        second.tear_down()


# spec: role-config.annotation, arbitration.roles
def test_a_role_reads_and_writes_what_is_its_own(start: Start) -> None:
    start(config=pipeline(EVERY_ENTITY))
    start(role_name="meters")
    limited().insert()
    assert len(found(sh.TableEntry("limited"))) == 1
    few = sh.TableEntry("few")
    few.match["dst_addr"] = DST
    mark = sh.Action("mark")
    mark["value"] = "1"
    few.oneshot = sh.Oneshot("few").add(mark)
    with refused("PERMISSION_DENIED"):
        few.insert()


def test_the_shell_as_a_program(switch: Switch, tmp_path: Path) -> None:
    files = pipeline(EVERY_ENTITY)
    command = [sys.executable, "-m", "p4runtime_sh", "--grpc-addr", switch.grpc]
    command += ["--device-id", str(DEVICE_ID), "--election-id", "0,1"]
    command += ["--config", f"{files.p4info},{files.bin}"]
    typed = f"""\
te = table_entry["I.limited"](action="I.metered")
te.match["hdr.ethernet.src_addr"] = "{SRC}"
te.insert()
table_entry["I.limited"].read(lambda found: print("FOUND", found.match["src_addr"].exact.value))
te.insert()
counter_entry["I.counts"].read(lambda found: print("CELL", found.index))
exit
"""
    ended = subprocess.run(
        command,
        input=typed,
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE_S,
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "IPYTHONDIR": str(tmp_path)},
    )
    said = ended.stdout
    assert rf"FOUND {bytes((2, 0, 0, 0, 0, 9))}" in said, ended
    assert "ALREADY_EXISTS" in said + ended.stderr
    assert said.count("CELL") == 8
