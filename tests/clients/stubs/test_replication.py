"""Tests P4Runtime's "PacketReplicationEngineEntry": multicast groups and clone sessions."""

import pytest
from client import DELETE, INSERT, MODIFY, Controller, ids
from google.rpc.code_pb2 import ALREADY_EXISTS, INVALID_ARGUMENT, NOT_FOUND
from p4.v1 import p4runtime_pb2 as p4


def replica(port: int, instance: int = 0) -> p4.Replica:
    return p4.Replica(egress_port=port, instance=instance)


def group(number: int, *replicas: p4.Replica, **fields: object) -> p4.MulticastGroupEntry:
    return p4.MulticastGroupEntry(multicast_group_id=number, replicas=replicas, **fields)


def session(number: int, *replicas: p4.Replica, **fields: object) -> p4.CloneSessionEntry:
    return p4.CloneSessionEntry(session_id=number, replicas=replicas, **fields)


# spec: multicast.groups
def test_groups_are_made_changed_read_and_deleted(primary: Controller) -> None:
    first = group(1, replica(2, 1), replica(2, 2), replica(1), metadata=b"\0\xff")
    second = group(2**16 - 1)
    primary.insert(first, second)
    assert primary.read(p4.MulticastGroupEntry()) == [first, second]
    assert primary.read(group(1)) == [first]
    changed = group(1, replica(1, 2**16 - 1))
    primary.modify(changed)
    assert primary.read(group(1)) == [changed]
    primary.delete(group(1), second)
    assert primary.read(p4.MulticastGroupEntry()) == []
    assert primary.read(group(1)) == []


# spec: multicast.groups
def test_ports_as_bytes_are_read_as_they_were_written(primary: Controller) -> None:
    if "port" not in p4.Replica.DESCRIPTOR.fields_by_name:
        pytest.skip("NOT TESTED, these stubs know ports as numbers only")
    written = group(1, p4.Replica(port=b"\1", instance=3), p4.Replica(port=b"\2"))
    primary.insert(written)
    assert primary.read(group(1)) == [written]


# spec: multicast.errors
def test_wrong_groups_are_refused(primary: Controller) -> None:
    primary.insert(group(1))
    for kind, wrong, code in [
        (INSERT, group(1), ALREADY_EXISTS),
        (INSERT, group(0), INVALID_ARGUMENT),
        (INSERT, group(2**16), INVALID_ARGUMENT),
        (INSERT, group(2, replica(1), replica(1)), INVALID_ARGUMENT),
        (INSERT, group(2, replica(1, 2**16)), INVALID_ARGUMENT),
        (INSERT, group(2, replica(2**20)), INVALID_ARGUMENT),
        # A replica whose port is not set.
        (INSERT, group(2, p4.Replica(instance=1)), INVALID_ARGUMENT),
        (MODIFY, group(2), NOT_FOUND),
        (DELETE, group(2), NOT_FOUND),
    ]:
        assert primary.refused(kind, wrong) == code, wrong
    # An entry whose oneof is empty.
    empty = p4.PacketReplicationEngineEntry()
    assert primary.refused(INSERT, empty) == INVALID_ARGUMENT


# spec: clone-session.sessions
def test_sessions_are_made_changed_read_and_deleted(primary: Controller) -> None:
    first = session(5, replica(2, 1), class_of_service=3, packet_length_bytes=64)
    second = session(100, replica(1), replica(2))
    primary.insert(first, second)
    assert primary.read(p4.CloneSessionEntry()) == [first, second]
    changed = session(5, replica(1, 9))
    primary.modify(changed)
    assert primary.read(session(5)) == [changed]
    primary.delete(session(5), session(100))
    assert primary.read(p4.CloneSessionEntry()) == []


# spec: clone-session.errors
def test_wrong_sessions_are_refused(primary: Controller) -> None:
    primary.insert(session(5))
    for kind, wrong, code in [
        (INSERT, session(5), ALREADY_EXISTS),
        (INSERT, session(0), INVALID_ARGUMENT),
        (INSERT, session(6, replica(1), replica(1)), INVALID_ARGUMENT),
        (INSERT, session(6, packet_length_bytes=-1), INVALID_ARGUMENT),
        (MODIFY, session(6), NOT_FOUND),
        (DELETE, session(6), NOT_FOUND),
    ]:
        assert primary.refused(kind, wrong) == code, wrong


# spec: multicast.backup-replicas
def test_backup_replicas_are_read_as_they_were_written(primary: Controller) -> None:
    if "backup_replicas" not in p4.Replica.DESCRIPTOR.fields_by_name:
        pytest.skip("NOT TESTED, these stubs know no backup replicas")
    first = p4.Replica(port=b"\1", instance=6)
    first.backup_replicas.add(port=b"\2", instance=7)
    written = group(1, first)
    primary.insert(written)
    assert primary.read(group(1)) == [written]
    assert ids()["replicated"]
