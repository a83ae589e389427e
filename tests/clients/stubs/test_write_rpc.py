"""Tests P4Runtime's sections "Write RPC" (batches, atomicity) and "Error Reporting Messages"."""

import pytest
from client import (
    DELETE,
    INSERT,
    MODIFY,
    Controller,
    begun,
    code_of,
    codes,
    error_of,
    errors,
    ids,
    slot,
    update,
)
from google.rpc.code_pb2 import (
    ABORTED,
    ALREADY_EXISTS,
    INVALID_ARGUMENT,
    NOT_FOUND,
    OK,
    OUT_OF_RANGE,
)
from grpc import StatusCode
from p4.v1 import p4runtime_pb2 as p4

Atomicity = p4.WriteRequest


def state(primary: Controller) -> list[object]:
    return primary.read(p4.TableEntry(table_id=ids()["begun"]), p4.RegisterEntry())


FAILING = [
    (INSERT, begun(b"\1")),
    (MODIFY, slot(8, b"\1")),
    (INSERT, begun(b"\1", b"\2")),
    (DELETE, begun(b"\xb1")),
    (DELETE, begun(b"\x09")),
    (MODIFY, slot(0, b"\7")),
    (INSERT, p4.Entity()),
]


# spec: errors.per-update, atomicity.continue
def test_every_update_of_a_batch_is_attempted_and_has_its_own_error(primary: Controller) -> None:
    error = error_of(primary.write, *(update(*one) for one in FAILING))
    expected = [OK, OUT_OF_RANGE, ALREADY_EXISTS, OK, NOT_FOUND, OK, INVALID_ARGUMENT]
    assert codes(error) == expected
    for found in errors(error):
        assert bool(found.message) == (found.canonical_code != OK)
    assert "4 of 7 updates failed" in error.details()
    keys = [entry.match[0].exact.value for entry in state(primary) if hasattr(entry, "match")]
    assert sorted(keys) == [b"\1", b"\xb2"]


# spec: atomicity.rollback, atomicity.dataplane, atomicity.errors
@pytest.mark.parametrize("atomicity", [Atomicity.ROLLBACK_ON_ERROR, Atomicity.DATAPLANE_ATOMIC])
def test_a_batch_that_fails_is_taken_back_whole(primary: Controller, atomicity: int) -> None:
    before = state(primary)
    batch = [
        (INSERT, begun(b"\1")),
        (MODIFY, slot(0, b"\7")),
        (INSERT, begun(b"\xb1")),
        (INSERT, begun(b"\2")),
    ]
    error = error_of(primary.write, *(update(*one) for one in batch), atomicity=atomicity)
    assert codes(error) == [ABORTED, ABORTED, ALREADY_EXISTS, ABORTED]
    assert state(primary) == before
    del batch[2]
    primary.write(*(update(*one) for one in batch), atomicity=atomicity)
    assert len(primary.read(p4.TableEntry(table_id=ids()["begun"]))) == 4
    assert primary.read(slot(0)) == [slot(0, b"\7")]


# spec: write.order
@pytest.mark.parametrize("atomicity", [3, -1, 99])
def test_an_atomicity_that_no_version_knows_is_refused(primary: Controller, atomicity: int) -> None:
    one = update(INSERT, begun(b"\1"))
    assert code_of(primary.write, one, atomicity=atomicity) == StatusCode.INVALID_ARGUMENT
    assert primary.read(begun(b"\1")) == []


# spec: write.in-order
def test_updates_of_one_batch_are_in_order(primary: Controller) -> None:
    batch = [
        (INSERT, begun(b"\1")),
        (MODIFY, begun(b"\1", b"\2")),
        (DELETE, begun(b"\1")),
        (INSERT, begun(b"\1", b"\3")),
    ]
    primary.write(*(update(*one) for one in batch))
    assert primary.read(begun(b"\1")) == [begun(b"\1", b"\3")]
    primary.write()


# spec: write.order
def test_the_whole_request_is_checked_before_its_updates(primary: Controller) -> None:
    wrong = update(INSERT, begun(b"\xb1"))
    no_election = {"election_id": None}
    for fields, code in [
        ({"device_id": 77, "role": "nobody"} | no_election, StatusCode.NOT_FOUND),
        ({"role": "nobody"} | no_election, StatusCode.NOT_FOUND),
        (no_election | {"atomicity": 9}, StatusCode.PERMISSION_DENIED),
        ({"atomicity": 9}, StatusCode.INVALID_ARGUMENT),
        ({}, StatusCode.UNKNOWN),
    ]:
        assert code_of(primary.write, wrong, **fields) == code, fields


# spec: errors.metadata-size
def test_the_errors_of_a_large_batch_are_no_more_than_this_client_takes(
    primary: Controller,
) -> None:
    for n_updates in (90, 2_000):
        error = error_of(primary.write, *[update(DELETE, begun(b"\x09"))] * n_updates)
        assert error.code() == StatusCode.UNKNOWN
        assert f"{n_updates} of {n_updates} updates failed" in error.details()


# spec: write.malformed
def test_what_is_no_message_is_an_invalid_argument(primary: Controller) -> None:
    call = primary.channel.unary_unary("/p4.v1.P4Runtime/Write")
    assert code_of(call, b"\x0a\xff\xff") == StatusCode.INVALID_ARGUMENT
    unknown = primary.channel.unary_unary("/p4.v1.P4Runtime/Nothing")
    assert error_of(unknown, b"").code() == StatusCode.UNIMPLEMENTED
    # The server ignores a field that no version of P4Runtime has.
    request = p4.WriteRequest(device_id=1, election_id=primary.election_id)
    call(request.SerializeToString() + b"\xf8\x07\x01")
