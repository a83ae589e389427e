"""Tests P4Runtime's sections "Client Arbitration and Controller Replication", "Role Config"."""

import pytest
from client import (
    INVALID_ARGUMENT,
    MODIFY,
    Client,
    code_of,
    codes,
    config,
    connected,
    controller,
    election,
    error_of,
    has,
    ids,
    limited,
    update,
)
from google.protobuf.any_pb2 import Any
from google.rpc.code_pb2 import ALREADY_EXISTS, NOT_FOUND, OK, PERMISSION_DENIED
from grpc import StatusCode
from p4.v1 import p4runtime_pb2 as p4
from switch import DEVICE_ID, Switch

HIGH = 1 << 64


# spec: arbitration.primary
def test_the_highest_election_id_is_primary_and_everybody_is_told(switch: Switch) -> None:
    with connected(switch.grpc) as first, connected(switch.grpc) as second:
        assert first.arbitrate(5) == OK
        assert second.arbitrate(3) == ALREADY_EXISTS
        with controller(switch.grpc, 9):
            for backup in (first, second):
                told = backup.next("arbitration")
                assert (told.device_id, told.election_id) == (DEVICE_ID, election(9))
                assert told.status.code == ALREADY_EXISTS


# spec: arbitration.128-bit
@pytest.mark.parametrize(
    ("low", "high"),
    [(2**64 - 1, HIGH), (HIGH, HIGH + 1), (HIGH + 2**63, 2 * HIGH), (1, 2**128 - 1)],
)
def test_the_high_half_of_an_election_id_counts_more(switch: Switch, low: int, high: int) -> None:
    with controller(switch.grpc, low) as former:
        former.set_pipeline(config())
        with connected(switch.grpc) as latter:
            assert latter.arbitrate(high) == OK
            told = former.next("arbitration")
            assert (told.election_id.high, told.election_id.low) == (high >> 64, high % HIGH)
            assert code_of(former.write) == StatusCode.PERMISSION_DENIED
            latter.write()


# spec: arbitration.leaves, arbitration.handover
def test_a_backup_takes_over_with_the_id_that_was_the_highest(switch: Switch) -> None:
    with connected(switch.grpc) as backup:
        with controller(switch.grpc, HIGH + 9) as primary:
            primary.set_pipeline(config())
            primary.modify(p4.RegisterEntry(register_id=ids()["slots"], data={"bitstring": b"\7"}))
            assert backup.arbitrate(5) == ALREADY_EXISTS
        told = backup.next("arbitration")
        assert (told.status.code, told.election_id) == (NOT_FOUND, election(HIGH + 9))
        assert backup.arbitrate(HIGH + 8) == NOT_FOUND
        assert code_of(backup.write) == StatusCode.PERMISSION_DENIED
        assert backup.arbitrate(HIGH + 9) == OK
        cells = backup.read(p4.RegisterEntry(register_id=ids()["slots"]))
        assert {cell.data.bitstring for cell in cells} == {b"\7"}
        backup.write()


# spec: arbitration.unset, arbitration.downgrade
def test_who_has_no_election_id_reads_and_never_writes(switch: Switch) -> None:
    with controller(switch.grpc, 4) as former, connected(switch.grpc) as standby:
        former.set_pipeline(config())
        assert standby.arbitrate(None) == ALREADY_EXISTS
        assert former.arbitrate(None) == NOT_FOUND
        assert standby.next("arbitration").status.code == NOT_FOUND
        for either in (former, standby):
            assert code_of(either.write) == StatusCode.PERMISSION_DENIED
            assert either.read(p4.TableEntry(table_id=ids()["begun"]))


# spec: arbitration.unique
def test_an_election_id_in_use_ends_the_stream(switch: Switch) -> None:
    with controller(switch.grpc, HIGH), connected(switch.grpc) as second:
        second.ask(HIGH)
        assert second.ended() == StatusCode.INVALID_ARGUMENT


# spec: arbitration.device-and-role
def test_the_device_of_a_stream_is_checked_and_its_role_stays(switch: Switch) -> None:
    with connected(switch.grpc) as stranger:
        stranger.ask(1, device_id=DEVICE_ID + 1)
        assert stranger.ended() == StatusCode.NOT_FOUND
    with controller(switch.grpc) as live:
        live.ask(1, role=p4.Role(name="routing"))
        assert live.ended() == StatusCode.FAILED_PRECONDITION


# spec: arbitration.roles, arbitration.unknown-role, role-config.annotation
def test_each_role_has_its_primary_and_writes_what_is_its_own(switch: Switch) -> None:
    with controller(switch.grpc, 7) as default, connected(switch.grpc, "routing") as routing:
        default.set_pipeline(config())
        assert code_of(default.write, role="nobody") == StatusCode.NOT_FOUND
        # Another role may use the same election id.
        assert routing.arbitrate(7) == OK
        assert routing.refused(MODIFY, limited()) == PERMISSION_DENIED
        assert code_of(routing.read, role="nobody") == StatusCode.NOT_FOUND
        default.insert(limited())
        assert len(routing.read(p4.TableEntry(table_id=ids()["limited"]))) == 1
        assert routing.read(p4.TableEntry(table_id=ids()["limited"]), role="routing") == []


# spec: role-config.errors
def test_a_role_config_of_another_scheme_ends_the_stream(switch: Switch) -> None:
    other = Any()
    other.Pack(p4.Index(index=1))
    for role in (p4.Role(name="routing", config=other), p4.Role(config=other)):
        with connected(switch.grpc) as stranger:
            stranger.ask(1, role=role)
            assert stranger.ended() == StatusCode.INVALID_ARGUMENT


# spec: arbitration.only-primary
def test_without_a_stream_everything_is_read_and_nothing_written(switch: Switch) -> None:
    stranger = Client(switch.grpc)
    with controller(switch.grpc) as primary:
        primary.set_pipeline(config())
        for election_id in (None, election(0), election(2), election(HIGH + 1)):
            denied = code_of(stranger.write, election_id=election_id)
            assert denied == StatusCode.PERMISSION_DENIED
            denied = code_of(stranger.set_pipeline, config(), election_id=election_id)
            assert denied == StatusCode.PERMISSION_DENIED
        assert len(stranger.read(p4.TableEntry(table_id=ids()["begun"]))) == 2
    stranger.close()


@pytest.mark.skipif(
    not has(p4.MasterArbitrationUpdate, "role"), reason="NOT TESTED, these stubs know no roles"
)
def test_a_role_with_a_number_of_older_controllers_is_a_role_of_its_own(switch: Switch) -> None:
    with controller(switch.grpc, 3) as default, connected(switch.grpc) as numbered:
        default.set_pipeline(config())
        numbered.ask(3, role=p4.Role(id=12))
        told = numbered.next("arbitration")
        assert (told.status.code, told.role.id) == (OK, 12)
        wrong = update(MODIFY, p4.TableEntry(table_id=1))
        assert codes(error_of(numbered.write, wrong, role_id=12)) == [INVALID_ARGUMENT]
