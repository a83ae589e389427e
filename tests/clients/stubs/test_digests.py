"""Tests P4Runtime's section "DigestEntry", and digests on the stream."""

from client import DELETE, INSERT, MODIFY, Controller, ids, packet_out
from google.rpc.code_pb2 import ALREADY_EXISTS, INVALID_ARGUMENT, NOT_FOUND
from p4.v1 import p4runtime_pb2 as p4
from switch import LOOPBACK_MAC, Switch

HOUR_NS = 3600 * 10**9


def wanted(name: str = "seen_t", **fields: int) -> p4.DigestEntry:
    return p4.DigestEntry(digest_id=ids()[name], config=p4.DigestEntry.Config(**fields))


def send(primary: Controller, switch: Switch, to: int, kind: int) -> None:
    """Makes a packet of this kind arrive on the port `to`, by a packet-out that loops back."""
    primary.send(packet=packet_out(switch.frame(to=to, kind=kind)))


def data(primary: Controller) -> tuple[p4.DigestList, list[list[bytes]]]:
    """Returns the next digest list, and the members of each digest in it."""
    told = primary.next("digest")
    members = [[member.bitstring for member in one.struct.members] for one in told.data]
    return told, members


# spec: digest.lists, digest.acknowledgements
def test_digests_are_told_once_until_they_are_acknowledged(
    primary: Controller, switch: Switch
) -> None:
    primary.insert(wanted(max_list_size=1, max_timeout_ns=HOUR_NS, ack_timeout_ns=HOUR_NS))
    send(primary, switch, to=2, kind=1)
    first, members = data(primary)
    assert (first.digest_id, members) == (ids()["seen_t"], [[LOOPBACK_MAC, b"\2", b"\1"]])
    # The same digest is not sent again; a digest with other values is.
    send(primary, switch, to=2, kind=1)
    send(primary, switch, to=3, kind=1)
    second, members = data(primary)
    assert members == [[LOOPBACK_MAC, b"\3", b"\1"]]
    assert second.list_id != first.list_id
    ack = p4.DigestListAck(digest_id=first.digest_id, list_id=first.list_id)
    primary.send(digest_ack=ack)
    send(primary, switch, to=2, kind=1)
    assert data(primary)[1] == [[LOOPBACK_MAC, b"\2", b"\1"]]


# spec: digest.lists
def test_a_list_is_full_before_its_time_is_over(primary: Controller, switch: Switch) -> None:
    primary.insert(wanted(max_list_size=2, max_timeout_ns=HOUR_NS))
    send(primary, switch, to=2, kind=1)
    send(primary, switch, to=3, kind=1)
    told, members = data(primary)
    assert sorted(ports for _, ports, _ in members) == [b"\2", b"\3"]
    assert told.timestamp > 0
    # A digest with a single member is a plain value, not a struct.
    primary.insert(wanted("noted_t", max_list_size=1))
    send(primary, switch, to=3, kind=2)
    told, _ = data(primary)
    assert told.digest_id == ids()["noted_t"]


# spec: digest.disabled
def test_configurations_are_made_changed_read_and_deleted(
    primary: Controller, switch: Switch
) -> None:
    assert primary.read(p4.DigestEntry()) == []
    primary.insert(wanted(max_list_size=7), wanted("noted_t", max_list_size=1))
    changed = wanted(max_list_size=1, max_timeout_ns=2, ack_timeout_ns=3)
    primary.modify(changed)
    assert primary.read(wanted()) == [changed]
    assert len(primary.read(p4.DigestEntry())) == 2
    primary.delete(wanted())
    assert primary.read(wanted()) == []
    # The digest whose configuration was deleted is no longer sent; the other one is.
    send(primary, switch, to=3, kind=1)
    send(primary, switch, to=3, kind=2)
    assert data(primary)[0].digest_id == ids()["noted_t"]


# spec: digest.errors
def test_wrong_configurations_are_refused(primary: Controller) -> None:
    primary.insert(wanted("noted_t"))
    for kind, wrong, code in [
        (INSERT, wanted("noted_t"), ALREADY_EXISTS),
        (MODIFY, wanted(), NOT_FOUND),
        (DELETE, wanted(), NOT_FOUND),
        (INSERT, wanted(max_list_size=-1), INVALID_ARGUMENT),
        (INSERT, wanted(max_timeout_ns=-1), INVALID_ARGUMENT),
        (INSERT, wanted(ack_timeout_ns=-1), INVALID_ARGUMENT),
        (INSERT, p4.DigestEntry(digest_id=5, config={}), INVALID_ARGUMENT),
    ]:
        assert primary.refused(kind, wrong) == code, wrong
