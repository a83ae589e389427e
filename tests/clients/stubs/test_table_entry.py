"""Tests P4Runtime's section "TableEntry"."""

import pytest
from client import (
    DELETE,
    INSERT,
    MODIFY,
    Controller,
    begun,
    exact,
    has,
    ids,
    limited,
    runs,
    ternary,
)
from google.rpc.code_pb2 import (
    ALREADY_EXISTS,
    INVALID_ARGUMENT,
    NOT_FOUND,
    PERMISSION_DENIED,
    RESOURCE_EXHAUSTED,
    UNIMPLEMENTED,
)
from p4.v1 import p4runtime_pb2 as p4
from switch import BRIDGE

DST, OTHER = b"\x0a", b"\x0b"
HOUR_NS = 3600 * 10**9
NO_COUNTS = p4.CounterData()
RATES = p4.MeterConfig(cir=1, cburst=2, pir=3, pburst=4)


def forward(key: bytes = DST, port: bytes = b"\2", **fields: object) -> p4.TableEntry:
    return p4.TableEntry(
        table_id=ids(BRIDGE)["forward"],
        match=[exact(1, key)],
        action=runs(ids(BRIDGE)["set_port"], port),
        **fields,
    )


def lpm(value: bytes, prefix_len: int) -> p4.TableEntry:
    match = p4.FieldMatch.LPM(value=value, prefix_len=prefix_len)
    return p4.TableEntry(
        table_id=ids(BRIDGE)["routes"],
        match=[p4.FieldMatch(field_id=1, lpm=match)],
        action=runs(ids(BRIDGE)["set_port"], b"\1"),
    )


def acl(*match: p4.FieldMatch, priority: int = 7) -> p4.TableEntry:
    return p4.TableEntry(
        table_id=ids(BRIDGE)["acl"],
        match=match,
        priority=priority,
        action=runs(ids(BRIDGE)["discard"]),
    )


# spec: table-entry.insert-modify-delete
def test_insert_modify_and_delete_need_the_right_state(bridge: Controller) -> None:
    assert bridge.refused(MODIFY, forward()) == NOT_FOUND
    assert bridge.refused(DELETE, forward()) == NOT_FOUND
    bridge.insert(forward(metadata=b"\0mine\xff"))
    assert bridge.refused(INSERT, forward()) == ALREADY_EXISTS
    bridge.modify(forward(port=b"\3"))
    # A modification replaces the metadata, too.
    assert bridge.read(forward()) == [forward(port=b"\3")]
    bridge.delete(forward())
    assert bridge.read(forward()) == []


# spec: table-entry.matches, read.symmetry
def test_every_match_kind_is_read_as_it_was_written(bridge: Controller) -> None:
    some = p4.FieldMatch(field_id=2, range=p4.FieldMatch.Range(low=b"\x01", high=b"\x08\x00"))
    port = p4.FieldMatch(field_id=3, optional=p4.FieldMatch.Optional(value=b"\x01\xff"))
    entries = [
        forward(),
        lpm(b"\x02" + bytes(5), 8),
        acl(ternary(1, b"\x10", b"\xf0"), some, port),
        acl(some, priority=1),
        # An entry without match fields matches always.
        acl(priority=2**31 - 1),
    ]
    bridge.insert(*entries)
    for written in entries:
        assert bridge.read(written) == [written]


# spec: table-entry.match-errors
def test_forms_that_the_section_forbids_are_refused(bridge: Controller) -> None:
    whole = p4.FieldMatch.Range(low=b"\0", high=b"\xff\xff")
    upside_down = p4.FieldMatch.Range(low=b"\2", high=b"\1")
    for wrong in (
        acl(ternary(1, b"\1", b"\0")),
        acl(ternary(1, b"\3", b"\1")),
        acl(p4.FieldMatch(field_id=2, range=whole)),
        acl(p4.FieldMatch(field_id=2, range=upside_down)),
        acl(ternary(1, b"\1", b"\1"), ternary(1, b"\1", b"\1")),
        acl(exact(1, b"\1")),
        acl(p4.FieldMatch(field_id=9, exact=p4.FieldMatch.Exact(value=b"\1"))),
        # A field whose oneof is empty.
        acl(p4.FieldMatch(field_id=1)),
        acl(priority=0),
        acl(priority=-5),
        lpm(b"\x02" + bytes(5), 0),
        lpm(b"\x02\1", 49),
        lpm(b"\x02" + bytes(4) + b"\1", 8),
        lpm(b"\x02" + bytes(5), -1),
        forward(priority=1),
        p4.TableEntry(table_id=ids(BRIDGE)["forward"], action=forward().action),
    ):
        assert bridge.refused(INSERT, wrong) in (INVALID_ARGUMENT, 11), wrong
    assert bridge.read(p4.TableEntry(table_id=ids(BRIDGE)["acl"])) == []


# spec: table-entry.actions
def test_actions_that_do_not_fit_are_refused(bridge: Controller) -> None:
    set_port, set_group = ids(BRIDGE)["set_port"], ids(BRIDGE)["set_group"]
    for wrong in (
        # An action whose oneof is empty, and no action.
        p4.TableAction(),
        None,
        runs(99),
        runs(set_port),
        runs(set_port, b"\1", b"\1"),
        runs(ids(BRIDGE)["serve"]),
        p4.TableAction(action_profile_member_id=1),
        p4.TableAction(action=p4.Action(action_id=set_group, params=[{"param_id": 2}])),
    ):
        entry = forward()
        entry.ClearField("action")
        if wrong is not None:
            entry.action.CopyFrom(wrong)
        assert bridge.refused(INSERT, entry) == INVALID_ARGUMENT, wrong
    only_default = forward()
    only_default.action.CopyFrom(runs(ids(BRIDGE)["discard"]))
    assert bridge.refused(INSERT, only_default) == PERMISSION_DENIED


# spec: table-entry.full
def test_a_full_table_says_so(bridge: Controller) -> None:
    bridge.insert(lpm(b"\x02" + bytes(5), 8), lpm(b"\x04" + bytes(5), 8))
    assert bridge.refused(INSERT, lpm(b"\x06" + bytes(5), 8)) == RESOURCE_EXHAUSTED


# spec: table-entry.default, table-entry.default-direct
def test_default_entries_are_modified_reset_and_read(bridge: Controller) -> None:
    table = ids(BRIDGE)["forward"]
    default = p4.TableEntry(table_id=table, is_default_action=True)
    (begin,) = bridge.read(default)
    assert begin.action == runs(ids(BRIDGE)["NoAction"])
    discard = p4.TableEntry(
        table_id=table, is_default_action=True, action=runs(ids(BRIDGE)["discard"]), metadata=b"d"
    )
    bridge.modify(discard)
    assert bridge.read(default) == [discard]
    bridge.modify(default)
    assert bridge.read(default) == [begin]
    assert bridge.refused(INSERT, discard) == INVALID_ARGUMENT
    assert bridge.refused(DELETE, default) == INVALID_ARGUMENT
    constant = p4.TableEntry(
        table_id=ids(BRIDGE)["routes"], is_default_action=True, action=forward().action
    )
    assert bridge.refused(MODIFY, constant) == PERMISSION_DENIED
    discard.counter_data.packet_count = 1
    assert bridge.refused(MODIFY, discard) == UNIMPLEMENTED


# spec: table-entry.constant
def test_constant_tables_are_read_and_not_written(bridge: Controller) -> None:
    table = ids(BRIDGE)["verdicts"]
    entries = bridge.read(p4.TableEntry(table_id=table))
    assert len(entries) == 2
    for entry in entries:
        assert not has(p4.TableEntry, "is_const") or entry.is_const
        written = p4.TableEntry(table_id=table, match=entry.match, action=entry.action)
        assert bridge.refused(DELETE, written) == PERMISSION_DENIED
        assert bridge.refused(INSERT, written) == PERMISSION_DENIED


# spec: table-entry.preinitialized
def test_entries_of_the_program_change_unless_they_are_constant(primary: Controller) -> None:
    assert len(primary.read(p4.TableEntry(table_id=ids()["begun"]))) == 2
    primary.modify(begun(b"\xb1", b"\5"))
    assert primary.read(begun(b"\xb1")) == [begun(b"\xb1", b"\5")]
    primary.delete(begun(b"\xb1"))
    assert primary.refused(DELETE, begun(b"\xb2")) == PERMISSION_DENIED
    (left,) = primary.read(p4.TableEntry(table_id=ids()["begun"]))
    assert list(left.match) == [exact(1, b"\xb2")]


# spec: table-entry.filters
def test_reads_are_filtered_by_what_is_set(bridge: Controller) -> None:
    entries = [forward(DST, metadata=b"a"), forward(OTHER, metadata=b"b"), acl(priority=3)]
    bridge.insert(*entries)
    table = ids(BRIDGE)["forward"]
    assert len(bridge.read(p4.TableEntry())) == 3 + 2
    assert bridge.read(p4.TableEntry(table_id=table, metadata=b"b")) == [entries[1]]
    assert len(bridge.read(p4.TableEntry(table_id=table, action=forward().action))) == 2
    assert bridge.read(p4.TableEntry(table_id=ids(BRIDGE)["acl"], priority=4)) == []
    assert bridge.read(p4.TableEntry(table_id=ids(BRIDGE)["acl"], priority=3)) == [entries[2]]


# spec: table-entry.direct-counter
def test_counts_are_in_the_entry_where_they_are_asked_for(bridge: Controller) -> None:
    counts = p4.CounterData(packet_count=3, byte_count=2**40)
    bridge.insert(forward(counter_data=counts))
    (plain,) = bridge.read(forward())
    assert not plain.HasField("counter_data")
    (found,) = bridge.read(forward(counter_data=NO_COUNTS))
    assert found.counter_data == counts
    # An unset counter is not modified.
    bridge.modify(forward(port=b"\3"))
    (found,) = bridge.read(forward(counter_data=NO_COUNTS))
    assert found.counter_data == counts
    wrong = acl()
    wrong.counter_data.packet_count = 1
    assert bridge.refused(INSERT, wrong) == INVALID_ARGUMENT


# spec: table-entry.direct-meter
def test_rates_are_in_the_entry_where_they_are_asked_for(primary: Controller) -> None:
    entry = limited(meter_config=RATES)
    primary.insert(entry)
    (plain,) = primary.read(p4.TableEntry(table_id=ids()["limited"]))
    assert not plain.HasField("meter_config")
    asked = p4.TableEntry(table_id=ids()["limited"], meter_config=p4.MeterConfig())
    (found,) = primary.read(asked)
    assert found.meter_config == RATES
    # After a modification without a meter config, the entry has no meter config.
    entry.ClearField("meter_config")
    primary.modify(entry)
    (found,) = primary.read(asked)
    assert not found.HasField("meter_config")


# spec: table-entry.idle-timeout, table-entry.idle-timeout-errors
def test_idle_timeouts_are_read_with_the_time_since_the_last_hit(primary: Controller) -> None:
    entry = limited(idle_timeout_ns=HOUR_NS)
    primary.insert(entry)
    (plain,) = primary.read(p4.TableEntry(table_id=entry.table_id))
    assert (plain.idle_timeout_ns, plain.HasField("time_since_last_hit")) == (HOUR_NS, False)
    asked = p4.TableEntry(table_id=entry.table_id, time_since_last_hit={})
    (found,) = primary.read(asked)
    assert 0 < found.time_since_last_hit.elapsed_ns < HOUR_NS
    entry.idle_timeout_ns = -1
    assert primary.refused(MODIFY, entry) == INVALID_ARGUMENT
    without = begun(b"\xb3")
    without.idle_timeout_ns = HOUR_NS
    assert primary.refused(INSERT, without) == INVALID_ARGUMENT


# spec: table-entry.idle-timeout
def test_an_idle_entry_is_told_on_the_stream(primary: Controller) -> None:
    entry = limited(idle_timeout_ns=10**6, metadata=b"idle")
    primary.insert(entry)
    told = primary.next("idle_timeout_notification")
    (found,) = told.table_entry
    assert (found.table_id, found.match) == (entry.table_id, entry.match)
    assert (found.idle_timeout_ns, found.metadata) == (10**6, b"idle")
    assert told.timestamp > 0


# spec: write.unknown
@pytest.mark.parametrize("kind", [0, 4, -1])
def test_an_update_type_that_no_version_knows_is_refused(bridge: Controller, kind: int) -> None:
    assert bridge.refused(kind, forward()) == INVALID_ARGUMENT
    assert bridge.read(forward()) == []
