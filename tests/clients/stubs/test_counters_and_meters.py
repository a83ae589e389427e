"""Tests P4Runtime's sections on counter entries, meter entries, and "MeterCounterData"."""

from client import (
    DELETE,
    INSERT,
    MODIFY,
    Controller,
    changed,
    ids,
    limited,
    packet_out,
)
from google.rpc.code_pb2 import INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE, UNIMPLEMENTED
from p4.v1 import p4runtime_pb2 as p4
from switch import Switch

RATES = p4.MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
COUNTS = p4.CounterData(packet_count=3, byte_count=99)
NO_COLORS = p4.MeterCounterData(green={}, yellow={}, red={})


def key() -> p4.TableEntry:
    return p4.TableEntry(table_id=limited().table_id, match=limited().match)


def counter(index: int | None = None, **fields: object) -> p4.CounterEntry:
    at = None if index is None else p4.Index(index=index)
    return p4.CounterEntry(counter_id=ids()["counts"], index=at, **fields)


def meter(index: int | None = None, **fields: object) -> p4.MeterEntry:
    at = None if index is None else p4.Index(index=index)
    return p4.MeterEntry(meter_id=ids()["rates"], index=at, **fields)


# spec: counter.indexed
def test_counter_cells_and_whole_arrays(primary: Controller) -> None:
    primary.modify(counter(2, data=COUNTS))
    assert primary.read(counter(2)) == [counter(2, data=COUNTS)]
    assert len(primary.read(counter())) == 8
    # A write without an index is for all cells; a write without a value changes no cell.
    primary.modify(counter(data=p4.CounterData(packet_count=1)))
    primary.modify(counter(3))
    assert {found.data.packet_count for found in primary.read(p4.CounterEntry())} == {1}


# spec: counter.errors
def test_wrong_counters_are_refused(primary: Controller) -> None:
    for kind, wrong, code in [
        (INSERT, counter(0, data=COUNTS), INVALID_ARGUMENT),
        (DELETE, counter(0), INVALID_ARGUMENT),
        (MODIFY, counter(8, data=COUNTS), OUT_OF_RANGE),
        (MODIFY, counter(-1, data=COUNTS), INVALID_ARGUMENT),
        (MODIFY, p4.CounterEntry(counter_id=3, data=COUNTS), INVALID_ARGUMENT),
        (MODIFY, counter(0, data=p4.CounterData(packet_count=-1)), INVALID_ARGUMENT),
        (MODIFY, p4.DirectCounterEntry(data=COUNTS), INVALID_ARGUMENT),
        (MODIFY, p4.DirectCounterEntry(table_entry=key(), data=COUNTS), NOT_FOUND),
    ]:
        assert primary.refused(kind, wrong) == code, wrong


# spec: counter.direct
def test_direct_counters_by_themselves(primary: Controller) -> None:
    primary.insert(limited())
    written = p4.DirectCounterEntry(table_entry=key(), data=COUNTS)
    primary.modify(written)
    of_table = p4.DirectCounterEntry(table_entry={"table_id": ids()["limited"]})
    for asked in (p4.DirectCounterEntry(table_entry=key()), of_table, p4.DirectCounterEntry()):
        assert primary.read(asked) == [written]
    default = p4.TableEntry(table_id=ids()["limited"], is_default_action=True)
    wrong = p4.DirectCounterEntry(table_entry=default, data=COUNTS)
    assert primary.refused(MODIFY, wrong) == UNIMPLEMENTED


# spec: counter.indexed
def test_packets_are_counted(primary: Controller, switch: Switch) -> None:
    primary.insert(p4.DigestEntry(digest_id=ids()["seen_t"], config={"max_list_size": 1}))
    # The second frame, of another kind, causes a digest.
    frames = [switch.frame(to=2, kind=kind) for kind in (0, 1)]
    for frame in frames:
        primary.send(packet=packet_out(frame))
    primary.next("digest")
    (found,) = primary.read(counter(2))
    # The digest is made before the packet is counted, so the read may come in between.
    assert found.data.packet_count in (1, 2)
    assert found.data.byte_count in (len(frames[0]), sum(map(len, frames)))


# spec: meter.indexed
def test_meter_cells_and_whole_arrays(primary: Controller) -> None:
    primary.modify(meter(3, config=RATES))
    assert primary.read(meter(3)) == [meter(3, config=RATES)]
    cells = primary.read(p4.MeterEntry())
    assert [found.HasField("config") for found in cells] == [n == 3 for n in range(8)]
    primary.modify(meter(config=RATES))
    assert all(found.config == RATES for found in primary.read(meter()))
    # A write without a config sets the default config, which has no rates.
    primary.modify(meter(3))
    assert primary.read(meter(3)) == [meter(3)]


# spec: meter.errors
def test_wrong_meters_are_refused(primary: Controller) -> None:
    for kind, wrong, code in [
        (INSERT, meter(0, config=RATES), INVALID_ARGUMENT),
        (MODIFY, meter(8, config=RATES), OUT_OF_RANGE),
        (MODIFY, meter(-1, config=RATES), INVALID_ARGUMENT),
        (MODIFY, meter(0, config=changed(RATES, cir=-1)), INVALID_ARGUMENT),
        # A committed rate above the peak rate, and a burst that this type of meter does not have.
        (MODIFY, meter(0, config=changed(RATES, cir=4)), INVALID_ARGUMENT),
        (MODIFY, meter(0, config=changed(RATES, eburst=1)), INVALID_ARGUMENT),
        (MODIFY, p4.MeterEntry(meter_id=3, config=RATES), INVALID_ARGUMENT),
        (MODIFY, p4.DirectMeterEntry(config=RATES), INVALID_ARGUMENT),
        (MODIFY, p4.DirectMeterEntry(table_entry=key(), config=RATES), NOT_FOUND),
    ]:
        assert primary.refused(kind, wrong) == code, wrong


# spec: meter.direct
def test_direct_meters_by_themselves(primary: Controller) -> None:
    primary.insert(limited())
    written = p4.DirectMeterEntry(table_entry=key(), config=RATES)
    primary.modify(written)
    of_table = p4.DirectMeterEntry(table_entry={"table_id": ids()["limited"]})
    for asked in (p4.DirectMeterEntry(table_entry=key()), of_table, p4.DirectMeterEntry()):
        assert primary.read(asked) == [written]
    primary.modify(p4.DirectMeterEntry(table_entry=key()))
    (found,) = primary.read(p4.DirectMeterEntry())
    assert not found.HasField("config")


# spec: meter.counter-data
def test_what_a_meter_has_marked_is_read_where_it_is_asked_for(primary: Controller) -> None:
    primary.insert(limited())
    assert not primary.read(meter(0))[0].HasField("counter_data")
    (found,) = primary.read(meter(0, counter_data={}))
    assert found.counter_data == NO_COLORS
    asked = p4.DirectMeterEntry(table_entry=key(), counter_data={})
    assert primary.read(asked)[0].counter_data == NO_COLORS
    primary.modify(meter(0, counter_data=NO_COLORS))
    some = p4.MeterCounterData(green=COUNTS, yellow={}, red={})
    assert primary.refused(MODIFY, meter(0, counter_data=some)) == INVALID_ARGUMENT
