"""Tests P4Runtime's sections "Bytestrings" and "Representation of Arbitrary P4 Types"."""

import pytest
from client import INSERT, MODIFY, Controller, begun, ids, runs, ternary
from google.rpc.code_pb2 import INVALID_ARGUMENT, OUT_OF_RANGE
from p4.v1 import p4runtime_pb2 as p4
from p4.v1.p4data_pb2 import P4Data
from switch import BRIDGE

ADDRESS = b"\x00\x00\x00\x00\x00\x63"
SHORTEST = b"\x63"


# spec: bytestring.unsigned, read.symmetry
@pytest.mark.parametrize(
    "key", [SHORTEST, b"\0" + SHORTEST, ADDRESS, bytes(30) + SHORTEST], ids=len
)
def test_leading_zeros_are_taken_and_the_canonical_form_is_given(
    primary: Controller, key: bytes
) -> None:
    # Some controllers pad to the field's width.
    primary.insert(begun(key, b"\0\0\7"))
    canonical = begun(SHORTEST, b"\7")
    assert primary.read(begun(key, b"\0\7")) == [canonical]
    primary.modify(begun(b"\0\0" + SHORTEST, b"\x08"))
    assert primary.read(canonical)[0].action == runs(ids()["mark"], b"\x08")
    primary.delete(begun(ADDRESS, b""))
    assert primary.read(canonical) == []


# spec: bytestring.unsigned
def test_zero_is_one_byte_of_zero(primary: Controller) -> None:
    primary.insert(begun(bytes(6), b"\0\0"))
    assert primary.read(begun(b"\0", b"")) == [begun(b"\0", b"\0")]


# spec: bytestring.unsigned
def test_a_value_that_does_not_fit_is_out_of_range(primary: Controller) -> None:
    assert primary.refused(INSERT, begun(b"\1" + bytes(6), b"\1")) == OUT_OF_RANGE
    assert primary.refused(INSERT, begun(b"\1", b"\1\0")) == OUT_OF_RANGE
    flag = p4.RegisterEntry(register_id=ids()["flags"], index=p4.Index(index=0))
    flag.data.bitstring = b"\2"
    assert primary.refused(MODIFY, flag) == OUT_OF_RANGE


# spec: bytestring.unsigned
def test_no_bytes_at_all_are_out_of_range(primary: Controller) -> None:
    assert primary.refused(INSERT, begun(b"", b"\1")) == OUT_OF_RANGE
    assert primary.refused(INSERT, begun(b"\1", b"")) == OUT_OF_RANGE


# spec: bytestring.unsigned
def test_masks_ranges_and_prefixes_are_canonical_too(bridge: Controller) -> None:
    acl = p4.TableEntry(
        table_id=ids(BRIDGE)["acl"], priority=3, action=runs(ids(BRIDGE)["discard"])
    )
    acl.match.append(ternary(1, b"\0\0\x12", b"\0\xff\xff"))
    acl.match.add(field_id=2, range=p4.FieldMatch.Range(low=b"\0\x10", high=b"\0\x20"))
    acl.match.add(field_id=3, optional=p4.FieldMatch.Optional(value=b"\0\2"))
    bridge.insert(acl)
    (found,) = bridge.read(p4.TableEntry(table_id=ids(BRIDGE)["acl"]))
    first, second, third = found.match
    assert (first.ternary.value, first.ternary.mask) == (b"\x12", b"\xff\xff")
    assert (second.range.low, second.range.high) == (b"\x10", b"\x20")
    assert third.optional.value == b"\2"


# spec: p4data.numbers
def test_data_is_of_its_object_s_type(primary: Controller) -> None:
    cell = p4.RegisterEntry(register_id=ids()["slots"], index=p4.Index(index=1))
    cell.data.bitstring = b"\0\0\x01\x02"
    primary.modify(cell)
    (found,) = primary.read(p4.RegisterEntry(register_id=cell.register_id, index=cell.index))
    assert found.data == P4Data(bitstring=b"\1\2")
    for wrong in (P4Data(bool=True), P4Data(enum="x"), P4Data(struct={}), P4Data()):
        cell.data.CopyFrom(wrong)
        assert primary.refused(MODIFY, cell) == INVALID_ARGUMENT
