"""The multicast paper's P4 rows, with real packets, and the groups that both of its SFUs have."""

import json
import os
import signal
import socket
from collections import Counter
from pathlib import Path

import pytest

from lab.frames import UdpFrame, udp_frame
from lab.netns import process_ids
from lab.process import ChildError
from lab.rows.multicast import (
    HIGH_QUALITY_PORT,
    LOW_QUALITY_PORT,
    MulticastOneStream,
    MulticastRow,
    MulticastTwoStreams,
)
from lab.rows.row import Variant
from lab.rows.shared_groups import SharedGroups, Subscription
from lab.sites import SITES, Participant, Site, Stream
from tests.rows.exchange import came_by_port, due, exchange, rtp, serves_and_stops_serving

pytestmark = pytest.mark.usefixtures("namespaces")

NATIVE = Variant("native", "afpacket", "sleep")
INTERPRETER = Variant("interpreter", "afpacket", "sleep")
TIMEOUT_S = 120.0


@pytest.mark.parametrize(
    ("row", "variant", "udp_port"),
    [
        (MulticastOneStream, NATIVE, LOW_QUALITY_PORT),
        (MulticastOneStream, INTERPRETER, LOW_QUALITY_PORT),
        (MulticastTwoStreams, NATIVE, LOW_QUALITY_PORT),
        (MulticastTwoStreams, NATIVE, HIGH_QUALITY_PORT),
    ],
)
def test_it_serves(
    row: type[MulticastRow], variant: Variant, udp_port: int, tmp_path: Path
) -> None:
    with SITES["port_per_host"](4) as site:
        with row(site, variant, tmp_path) as running:
            serves_and_stops_serving(running, udp_port)
            assert set(running.pids) <= set(process_ids(site.sfu))
        assert process_ids(site.sfu) == []


def test_it_serves_on_af_xdp(system_root: None, tmp_path: Path) -> None:
    variant = Variant("native", "afxdp", "sleep")
    with SITES["port_per_host"](4) as site, MulticastTwoStreams(site, variant, tmp_path) as row:
        serves_and_stops_serving(row, HIGH_QUALITY_PORT)


def conference(site: Site) -> list[Subscription]:
    """The source's: everybody's low quality to all others, the high one to a half of them."""
    everybody = site.participants(1, site.n_participants)
    half = everybody[len(everybody) // 2 :]
    subscriptions: list[Subscription] = []
    for sender in everybody:
        for udp_port, group in ((LOW_QUALITY_PORT, everybody), (HIGH_QUALITY_PORT, half)):
            stream = Stream(len(subscriptions) + 1, sender, udp_port)
            subscriptions.append((stream, [one for one in group if one != sender]))
    return subscriptions


def test_a_conference_of_the_source_is_served(tmp_path: Path) -> None:
    with (
        SITES["port_per_host"](6) as site,
        MulticastTwoStreams(site, NATIVE, tmp_path) as row,
    ):
        subscriptions = conference(site)
        row.subscribe_all(subscriptions)
        packets = [(stream, rtp(1000 + stream.number)) for stream, _ in subscriptions]
        expected = Counter[tuple[str, bytes]]()
        for (_, viewers), (_, payload) in zip(subscriptions, packets, strict=True):
            expected += due([payload], viewers)
        copies = exchange(site, packets, expected.total())
        assert expected.total() == 6 * 5 + 3 * 3 + 3 * 2
        assert came_by_port(copies, site) == expected
        runtime = json.loads((tmp_path / "s1-runtime.json").read_text())
        low, high = runtime["multicast_group_entries"]
        assert [one["egress_port"] for one in low["replicas"]] == [1, 2, 3, 4, 5, 6]
        assert [one["egress_port"] for one in high["replicas"]] == [4, 5, 6]
        shown = row.reprise("entries", "apply", str(tmp_path / "s1-runtime.json"), "--replace")
        assert shown == "no change\n"


def test_what_is_no_stream_goes_by_its_route(tmp_path: Path) -> None:
    with SITES["port_per_host"](3) as site, MulticastOneStream(site, NATIVE, tmp_path):

        def ask() -> tuple[int, str]:
            answer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            question = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            with answer, question:
                answer.settimeout(TIMEOUT_S)
                answer.bind(("h3", 3))
                question.bind(("h1", 0))
                question.send(datagram(site, str(site.participant(3).ip), HIGH_QUALITY_PORT))
                frame = answer.recv(2048)
            return frame[22], frame[:12].hex(":")

        ttl, addresses = site.hosts.call(ask)
        assert ttl == 63
        assert addresses == f"{site.links[2].host_mac}:{site.links[0].sfu_mac}"


def datagram(site: Site, to: str, udp_port: int, *, eth_dst: str = "") -> bytes:
    sender = site.participant(1)
    return udp_frame(
        UdpFrame(
            eth_src=sender.mac,
            eth_dst=eth_dst or site.links[0].sfu_mac,
            src_ip=str(sender.ip),
            dst_ip=to,
            src_port=udp_port,
            dst_port=udp_port,
            payload=b"to all",
        )
    )


def test_an_ordinary_socket_takes_what_is_sent_to_a_multicast_address(tmp_path: Path) -> None:
    group, group_mac = "239.1.1.1", "01:00:5e:01:01:01"
    with (
        SITES["port_per_host"](3) as site,
        MulticastOneStream(site, NATIVE, tmp_path) as row,
    ):
        row.subscribe(Stream(1, site.participant(1), LOW_QUALITY_PORT), site.participants(2, 2))
        site.hosts.run(["sysctl", "-qw", *(f"net.ipv4.conf.{it}.rp_filter=0" for it in INTERFACES)])

        def listen(interface: str) -> socket.socket:
            viewer = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            viewer.settimeout(TIMEOUT_S)
            viewer.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            viewer.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode())
            viewer.bind((group, LOW_QUALITY_PORT))
            index = socket.if_nametoindex(interface).to_bytes(4, "little")
            member = socket.inet_aton(group) + bytes(4) + index
            viewer.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
            return viewer

        def receive() -> list[bytes]:
            sender = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            with listen("h2") as second, listen("h3") as third, sender:
                sender.bind(("h1", 0))
                sender.send(datagram(site, group, LOW_QUALITY_PORT, eth_dst=group_mac))
                return [second.recv(2048), third.recv(2048)]

        assert site.hosts.call(receive) == [b"to all", b"to all"]


INTERFACES = ("all", "h2", "h3")


def test_a_stream_to_another_port_is_refused(tmp_path: Path) -> None:
    with SITES["port_per_host"](2) as site, MulticastOneStream(site, NATIVE, tmp_path) as row:
        stream = Stream(7, site.participant(1), HIGH_QUALITY_PORT)
        with pytest.raises(ValueError, match="stream 7 to be sent to UDP port 6363, found 6364"):
            row.subscribe(stream, site.participants(2, 1))


def test_a_switch_that_was_killed_is_told(tmp_path: Path) -> None:
    with SITES["port_per_host"](2) as site, MulticastOneStream(site, NATIVE, tmp_path) as row:
        for pid in row.pids:
            os.kill(pid, signal.SIGKILL)
        stream = Stream(1, site.participant(1), LOW_QUALITY_PORT)
        with pytest.raises(ChildError, match="no switch answers"):
            row.subscribe(stream, site.participants(2, 1))
        row.stop()
        row.stop()
        assert process_ids(site.sfu) == []


def people(n: int) -> list[Participant]:
    return SITES["port_per_host"](n).participants(1, n)


def test_a_shared_group_is_all_viewers_and_the_senders_among_them() -> None:
    one, two, three, four = people(4)
    groups = SharedGroups()
    assert groups.subscribe([(Stream(1, one), [two, three])]) == {5004: [two, three]}
    assert groups.subscribe([(Stream(2, two), [one, three])]) == {5004: [one, two, three]}
    # The other quality has a group of its own.
    high = (Stream(3, one, 6364), [four])
    assert groups.subscribe([high]) == {5004: [one, two, three], 6364: [four]}
    both = [(Stream(1, one), [two, four]), (Stream(2, two), [one, four])]
    assert groups.subscribe(both)[5004] == [one, two, four]
    nobody: list[Subscription] = [
        (Stream(number, sender), []) for number, sender in ((1, one), (2, two))
    ]
    assert groups.subscribe(nobody)[5004] == []


def test_a_conference_of_fewer_follows_one_of_more() -> None:
    groups = SharedGroups()
    for n in (4, 2, 3):
        present = people(4)[:n]
        streams = [Stream(sender.number, sender) for sender in present]
        everybody = [(one, [other for other in present if other != one.sender]) for one in streams]
        assert groups.subscribe(everybody) == {5004: present}
        assert groups.subscribe([(one, []) for one in streams]) == {5004: []}


def test_viewers_that_differ_by_more_than_the_senders_are_refused_and_nothing_changes() -> None:
    one, two, three, four = people(4)
    groups = SharedGroups()
    groups.subscribe([(Stream(1, one), [two, three])])
    with pytest.raises(ValueError, match="participant 4 views stream 2 and not stream 1: both are"):
        groups.subscribe([(Stream(2, two), [one, three, four])])
    with pytest.raises(ValueError, match="participant 2 views stream 1 and not stream 2"):
        groups.subscribe([(Stream(2, four), [three])])
    with pytest.raises(ValueError, match="stream 2: participant 2 sends it and cannot view it"):
        groups.subscribe([(Stream(2, two), [two, three])])
    assert groups.subscribe([]) == {5004: [two, three]}
