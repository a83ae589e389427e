"""Tests P4Runtime's sections "ValueSetEntry" and "RegisterEntry"."""

from client import DELETE, INSERT, MODIFY, Controller, exact, ids, slot, ternary
from google.rpc.code_pb2 import ALREADY_EXISTS, INVALID_ARGUMENT, OUT_OF_RANGE, RESOURCE_EXHAUSTED
from p4.v1 import p4runtime_pb2 as p4
from p4.v1.p4data_pb2 import P4Data


def trunks(*values: bytes) -> p4.ValueSetEntry:
    members = [p4.ValueSetMember(match=[exact(1, value)]) for value in values]
    return p4.ValueSetEntry(value_set_id=ids()["trunks"], members=members)


def pair(*match: p4.FieldMatch) -> p4.ValueSetEntry:
    members = [p4.ValueSetMember(match=match)]
    return p4.ValueSetEntry(value_set_id=ids()["port_trunks"], members=members)


def bits(value: bytes) -> P4Data:
    return P4Data(bitstring=value)


# spec: value-set.members
def test_value_sets_are_written_whole(primary: Controller) -> None:
    primary.modify(trunks(b"\x22\xf3", b"\x89\x3b"))
    assert primary.read(trunks()) == [trunks(b"\x22\xf3", b"\x89\x3b")]
    both = pair(ternary(1, b"\x90\x00", b"\xff\x00"), exact(2, b"\1"))
    primary.modify(both)
    assert len(primary.read(p4.ValueSetEntry())) == 2
    primary.modify(trunks(b"\1"))
    assert primary.read(trunks(), both) == [trunks(b"\1"), both]
    primary.modify(trunks())
    assert primary.read(trunks()) == [trunks()]


# spec: value-set.errors
def test_wrong_value_sets_are_refused(primary: Controller) -> None:
    for kind, wrong, code in [
        (INSERT, trunks(b"\1"), INVALID_ARGUMENT),
        (DELETE, trunks(), INVALID_ARGUMENT),
        (MODIFY, p4.ValueSetEntry(value_set_id=5), INVALID_ARGUMENT),
        (MODIFY, trunks(b"\1\0\0"), OUT_OF_RANGE),
        (MODIFY, trunks(b"\1", b"\2", b"\3", b"\4", b"\5"), RESOURCE_EXHAUSTED),
        (MODIFY, pair(ternary(1, b"\1", b"\1")), INVALID_ARGUMENT),
        (MODIFY, pair(exact(1, b"\1"), exact(2, b"\1")), INVALID_ARGUMENT),
        (MODIFY, p4.ValueSetEntry(value_set_id=ids()["trunks"], members=[{}]), INVALID_ARGUMENT),
    ]:
        assert primary.refused(kind, wrong) == code, wrong
    assert primary.refused(MODIFY, trunks(b"\1", b"\0\1")) in (ALREADY_EXISTS, INVALID_ARGUMENT)
    assert primary.read(trunks()) == [trunks()]


# spec: register.cells
def test_register_cells_and_whole_arrays(primary: Controller) -> None:
    primary.modify(slot(3, b"\1" + bytes(5)))
    assert primary.read(slot(3)) == [slot(3, b"\1" + bytes(5))]
    found = primary.read(slot())
    assert [cell.index.index for cell in found] == list(range(8))
    primary.modify(slot(value=b"\7"))
    assert all(cell.data == bits(b"\7") for cell in primary.read(slot()))
    # Without an id the cells of both registers are read.
    assert len(primary.read(p4.RegisterEntry())) == 8 + 4


# spec: register.errors
def test_wrong_registers_are_refused(primary: Controller) -> None:
    for kind, wrong, code in [
        (INSERT, slot(0, b"\1"), INVALID_ARGUMENT),
        (DELETE, slot(0), INVALID_ARGUMENT),
        (MODIFY, slot(8, b"\1"), OUT_OF_RANGE),
        (MODIFY, slot(-1, b"\1"), INVALID_ARGUMENT),
        (MODIFY, slot(0, b"\1" + bytes(6)), OUT_OF_RANGE),
        (MODIFY, p4.RegisterEntry(register_id=5, data=bits(b"\1")), INVALID_ARGUMENT),
    ]:
        assert primary.refused(kind, wrong) == code, wrong
