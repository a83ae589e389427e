"""Tests P4Runtime's section "Read RPC", and wildcards."""

from collections import Counter

import pytest
from client import Controller, code_of, codes, error_of, ids, limited
from google.rpc.code_pb2 import INVALID_ARGUMENT, NOT_FOUND, OK
from grpc import RpcError, StatusCode
from p4.v1 import p4runtime_pb2 as p4
from switch import BRIDGE

EVERYTHING = [
    p4.TableEntry(),
    p4.ActionProfileMember(),
    p4.ActionProfileGroup(),
    p4.CounterEntry(),
    p4.DirectCounterEntry(),
    p4.MeterEntry(),
    p4.DirectMeterEntry(),
    p4.MulticastGroupEntry(),
    p4.CloneSessionEntry(),
    p4.ValueSetEntry(),
    p4.RegisterEntry(),
    p4.DigestEntry(),
    p4.ExternEntry(),
]


# spec: read.wildcards
def test_every_kind_at_once(primary: Controller) -> None:
    primary.insert(
        limited(),
        p4.MulticastGroupEntry(multicast_group_id=3),
        p4.CloneSessionEntry(session_id=3),
        p4.DigestEntry(digest_id=ids()["seen_t"], config={}),
    )
    assert Counter(one.DESCRIPTOR.name for one in primary.read(*EVERYTHING)) == {
        "TableEntry": 3,
        "CounterEntry": 8,
        "DirectCounterEntry": 1,
        "MeterEntry": 8,
        "DirectMeterEntry": 1,
        "MulticastGroupEntry": 1,
        "CloneSessionEntry": 1,
        "ValueSetEntry": 2,
        "RegisterEntry": 8 + 4,
        "DigestEntry": 1,
    }


# spec: read.wildcards-of-nothing
def test_a_wildcard_over_what_the_program_does_not_have_finds_none(bridge: Controller) -> None:
    for message in (p4.MeterEntry(), p4.ValueSetEntry(), p4.ActionProfileGroup(), p4.DigestEntry()):
        assert bridge.read(message) == []
    assert bridge.read() == []


# spec: read.errors
def test_a_read_returns_what_it_can_and_one_error_an_entity(primary: Controller) -> None:
    asked = [
        p4.TableEntry(table_id=ids()["begun"]),
        p4.TableEntry(table_id=5),
        p4.Entity(),
        p4.RegisterEntry(register_id=ids()["slots"], index=p4.Index(index=2)),
        p4.CounterEntry(index=p4.Index(index=1)),
    ]
    found = []
    with pytest.raises(RpcError) as refused:
        found.extend(one for answer in primary.responses(*asked) for one in answer.entities)
    expected = [OK, INVALID_ARGUMENT, INVALID_ARGUMENT, OK, INVALID_ARGUMENT]
    assert codes(refused.value) == expected
    assert [one.WhichOneof("entity") for one in found] == ["table_entry"] * 2 + ["register_entry"]


def test_the_request_itself_is_checked(primary: Controller) -> None:
    for fields, code in [
        ({"device_id": 9}, StatusCode.NOT_FOUND),
        ({"role": "nobody"}, StatusCode.NOT_FOUND),
    ]:
        assert code_of(primary.read, p4.TableEntry(), **fields) == code


# spec: extern-entry.programs
def test_externs_are_refused_by_their_type(primary: Controller) -> None:
    wrong = p4.ExternEntry(extern_type_id=0x91, extern_id=0x91000001)
    error = error_of(primary.read, wrong)
    assert codes(error) == [NOT_FOUND]
    assert "0x91" in str(error.details())


def test_a_long_answer_comes_in_pieces_and_in_the_order_of_the_request(bridge: Controller) -> None:
    n_cells = 8_000
    slots = ids(BRIDGE)["slots"]
    bridge.modify(p4.RegisterEntry(register_id=slots, data={"bitstring": b"\7"}))
    asked = [
        p4.RegisterEntry(register_id=slots, index=p4.Index(index=index))
        for index in reversed(range(n_cells))
    ]
    answers = list(bridge.responses(*asked))
    assert len(answers) > 1
    cells = [one.register_entry for answer in answers for one in answer.entities]
    assert [cell.index.index for cell in cells] == list(reversed(range(n_cells)))
    assert {cell.data.bitstring for cell in cells} == {b"\7"}
