"""Tests the rows (SFUs that the lab measures) for the P4 SFU of the multicast paper.

The rows forward real packets. Further tests check the groups of the paper's two SFUs.
"""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from lab.frames import UdpFrame, udp_frame
from lab.rows.multicast import (
    HIGH_QUALITY_PORT,
    LOW_QUALITY_PORT,
    MulticastOneStream,
    MulticastTwoStreams,
)
from lab.rows.row import Variant
from lab.rows.scapy import UserspacePortPerHost
from lab.rows.shared_groups import SharedGroups, Subscription
from lab.sites import SITES, Participant, Site, Stream
from tests.packet_sockets import at_links
from tests.rows.exchange import (
    datagram,
    serves_at_once,
    tells_that_it_was_killed,
    to_all_others,
)

pytestmark = pytest.mark.usefixtures("namespaces")

NATIVE = Variant("native", "afpacket", "sleep")
TIMEOUT_S = 120.0


def test_a_conference_of_the_source_is_served(tmp_path: Path) -> None:
    """The low-quality streams go to all other participants, the high-quality streams to half."""
    with (
        SITES["port_per_host"](6) as site,
        MulticastTwoStreams(site, NATIVE, tmp_path) as row,
    ):
        streams = to_all_others(site, LOW_QUALITY_PORT, HIGH_QUALITY_PORT)
        of_high: list[Subscription] = [
            (stream, [one for one in others if one.number > 3]) for stream, others in streams[6:]
        ]
        assert len(serves_at_once(row, streams[:6] + of_high)) == 6 * 5 + 3 * 3 + 3 * 2
        runtime = json.loads((tmp_path / "s1-runtime.json").read_text())
        low, high = runtime["multicast_group_entries"]
        assert [one["egress_port"] for one in low["replicas"]] == [1, 2, 3, 4, 5, 6]
        assert [one["egress_port"] for one in high["replicas"]] == [4, 5, 6]
        shown = row.reprise("entries", "apply", str(tmp_path / "s1-runtime.json"), "--replace")
        assert shown == "no change\n"


def test_what_is_no_stream_goes_by_its_route(tmp_path: Path) -> None:
    with SITES["port_per_host"](3) as site, MulticastOneStream(site, NATIVE, tmp_path):
        question = to_all(site, HIGH_QUALITY_PORT)
        with at_links(site) as (sockets, _):
            sockets[3].settimeout(TIMEOUT_S)
            sockets[1].send(udp_frame(replace(question, dst_ip=str(site.participant(3).ip))))
            frame = sockets[3].recv(2048)
        ttl, addresses = frame[22], frame[:12].hex(":")
        assert ttl == 63
        assert addresses == f"{site.links[2].host_mac}:{site.links[0].sfu_mac}"


def to_all(site: Site, udp_port: int) -> UdpFrame:
    return datagram(site, site.participant(1), udp_port, udp_port, b"to all")


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
                to_group = replace(to_all(site, LOW_QUALITY_PORT), dst_ip=group, eth_dst=group_mac)
                sender.send(udp_frame(to_group))
                return [second.recv(2048), third.recv(2048)]

        assert site.hosts.call(receive) == [b"to all", b"to all"]


INTERFACES = ("all", "h2", "h3")


def test_a_stream_to_another_port_is_refused(tmp_path: Path) -> None:
    with SITES["port_per_host"](2) as site, MulticastOneStream(site, NATIVE, tmp_path) as row:
        stream = Stream(7, site.participant(1), HIGH_QUALITY_PORT)
        with pytest.raises(ValueError, match="stream 7 to be sent to UDP port 6363, found 6364"):
            row.subscribe(stream, site.participants(2, 1))


def test_a_switch_that_was_killed_is_told(tmp_path: Path) -> None:
    with SITES["port_per_host"](3) as site, MulticastOneStream(site, NATIVE, tmp_path) as row:
        tells_that_it_was_killed(row, "no switch answers", LOW_QUALITY_PORT)


def test_a_group_is_one_for_all_senders_in_user_space_too(tmp_path: Path) -> None:
    with SITES["port_per_host"](4) as site, UserspacePortPerHost(site, Variant(), tmp_path) as row:
        row.subscribe(Stream(1, site.participant(1)), site.participants(2, 2))
        with pytest.raises(ValueError, match="participant 4 views stream 2 and not stream 1"):
            row.subscribe(Stream(2, site.participant(2)), site.participants(3, 2))


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
