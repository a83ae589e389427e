"""An SFU with two ports and an address of its own on each."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from lab.frames import UdpFrame, udp_frame
from lab.traffic import inject
from tests.e2e.conftest import verdicts_of
from tests.e2e.two_ports import PORT_OF, STREAM_PORT, TwoPorts, ip_of, mac_of, own_ip, own_mac

N_PACKETS = 200


def payloads(word: str, n: int = N_PACKETS) -> list[bytes]:
    """Payloads that differ from each other, of odd and even lengths."""
    return [f"{word} {k} ".encode() + b"x" * (k % 700) for k in range(n)]


def receive(receiver: socket.socket, n: int) -> list[tuple[bytes, tuple[str, int]]]:
    return [receiver.recvfrom(2048) for _ in range(n)]


def assert_nothing_waits(receiver: socket.socket) -> None:
    receiver.setblocking(False)
    try:
        extra = receiver.recvfrom(2048)
    except BlockingIOError:
        return
    raise AssertionError(f"one more: {extra!r}")


def assert_checksums_were_right(running: TwoPorts) -> None:
    for host in running.network.hosts.values():
        assert host.udp_counters()["InCsumErrors"] == 0


@pytest.fixture
def receivers(running: TwoPorts) -> Iterator[list[socket.socket]]:
    """Lets host 1 present group 1; yields sockets of its two viewers, one on each switch port."""
    running.reprise("group", "add", "--group", "1", "--ip", ip_of(1))
    with contextlib.ExitStack() as stack:
        sockets = []
        for viewer in (2, 3):
            running.reprise("viewer", "add", "--group", "1", "--ip", ip_of(viewer))
            sockets.append(stack.enter_context(running.receiver(viewer)))
        yield sockets


def test_viewers_on_both_ports_get_every_packet_once_from_their_ports_own_address(
    running: TwoPorts,
) -> None:
    # Each port has a presenter. The switch finds each viewer on the port where it answers ARP.
    running.reprise("group", "add", "--group", "1", "--ip", ip_of(1))
    running.reprise("group", "add", "--group", "2", "--ip", ip_of(3), "--udp-port", "6000")
    for group, viewers in ((1, (2, 3, 4)), (2, (2, 4))):
        for viewer in viewers:
            running.reprise("viewer", "add", "--group", str(group), "--ip", ip_of(viewer))
    found = running.viewers(1)
    assert {ip: one["port"] for ip, one in found.items()} == {
        ip_of(viewer): PORT_OF[viewer] for viewer in (2, 3, 4)
    }
    streams = ((1, 1, STREAM_PORT, (2, 3, 4)), (2, 3, 6000, (2, 4)))
    for group, presenter, udp_port, viewers in streams:
        receivers = {viewer: running.receiver(viewer, udp_port) for viewer in viewers}
        sent = payloads(f"group {group}")
        running.present(presenter, sent, udp_port)
        for viewer, receiver in receivers.items():
            source = (own_ip(PORT_OF[viewer]), udp_port)
            assert receive(receiver, N_PACKETS) == [(payload, source) for payload in sent]
            assert_nothing_waits(receiver)
            receiver.close()
    assert_checksums_were_right(running)
    shown = running.show()
    counts = [one["packets"] for group in shown["groups"] for one in group["viewers"]]
    assert counts == [N_PACKETS] * 5
    # Besides the two streams only the kernels' ARP packets came in.
    assert verdicts_of(shown)["serve"] == 2 * N_PACKETS
    assert [drop for drop in shown["drops"] if drop["packets"]] == []


def test_who_stays_loses_nothing_while_viewers_and_an_address_come_and_go(
    running: TwoPorts, receivers: list[socket.socket]
) -> None:
    changes = [
        ("viewer", "add", "--group", "1", "--ip", ip_of(4)),
        ("viewer", "remove", "--group", "1", "--ip", ip_of(3)),
        ("viewer", "add", "--group", "1", "--ip", ip_of(3), "--mac", mac_of(3), "--port", "2"),
        ("address", "set", "--port", "2", "--ip", "10.0.2.200", "--mac", own_mac(2)),
        ("viewer", "remove", "--group", "1", "--ip", ip_of(4)),
    ]
    for round_, change in enumerate(changes):
        sent = payloads(f"round {round_}", 50)
        running.present(1, sent[:25])
        running.reprise(*change)
        running.present(1, sent[25:])
        near = [payload for payload, _ in receive(receivers[0], 50)]
        assert near == sent, "the viewer on the presenter's port"
        # The viewer on the other port leaves in round 1 and comes back in round 2.
        due = {1: sent[:25], 2: sent[25:]}.get(round_, sent)
        got = receive(receivers[1], len(due))
        assert [payload for payload, _ in got] == due
        own = "10.0.2.200" if round_ >= 3 else own_ip(2)
        assert got[-1][1] == (own, STREAM_PORT)
    for receiver in receivers:
        assert_nothing_waits(receiver)
    assert_checksums_were_right(running)


def tagged(tag: bytes, payload: bytes) -> bytes:
    datagram = UdpFrame(mac_of(1), own_mac(1), ip_of(1), own_ip(1), 40_000, STREAM_PORT, payload)
    frame = udp_frame(datagram)
    return frame[:12] + b"\x81\x00" + tag + frame[12:]


def test_a_frame_of_vlan_0_is_served_and_one_of_another_is_counted(
    running: TwoPorts, receivers: list[socket.socket]
) -> None:
    presenter = running.network.hosts[1]
    for tag, payload in ((b"\x00\x05", b"five"), (b"\x00\x00", b"none"), (b"\xb0\x00", b"voice")):
        inject(presenter, tagged(tag, payload))
    for receiver in receivers:
        assert [payload for payload, _ in receive(receiver, 2)] == [b"none", b"voice"]
        assert_nothing_waits(receiver)
    verdicts = verdicts_of(running.show())
    assert (verdicts["serve"], verdicts["drop_vlan"]) == (2, 1)
