"""`reprise join` keeps running when something is away for a while or packets are too long.

The service, the host's network or a publisher is away; or a program sends packets that do not fit.
"""

import os
import re
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from reprise_conference import Client, MediaSocket

from tests.service import films, gstreamer
from tests.service.conference import CONFERENCE, Conference, Host, hosts, wait
from tests.service.films import Film, Viewer, longest_gaps_s
from tests.service.network import INTERFACE, Place
from tests.service.running import LIMIT_S

AWAY_S = 8.0
"""Longer than the interval at which `reprise join` reads the conference."""
SECOND = films.FRAMES_PER_S


pytestmark = pytest.mark.usefixtures("namespaces")


def watching(ann: Host, bob: Host) -> tuple[Film, Viewer]:
    """Lets ann send a film that bob watches; returns the film and bob's viewer."""
    film = films.video(ann, "red")
    ann.join(publish={"video": film.sdp})
    bob.join(receive=["ann/video"])
    viewer = Viewer(bob, "ann/video")
    films.send(ann, film)
    assert film.is_part(viewer.until(SECOND))
    return film, viewer


def test_a_restart_of_the_service_costs_no_frame(tmp_path: Path) -> None:
    with Conference(tmp_path, [Place("ann"), Place("bob")]) as conference:
        ann, bob = hosts(conference)
        film, viewer = watching(ann, bob)
        with conference.service_away():
            time.sleep(AWAY_S)
        assert not [host.name for host in (ann, bob) if host.has_left()]
        assert film.is_part(viewer.until(2 * SECOND))


@pytest.mark.parametrize("who", ["ann", "bob"])
def test_a_host_whose_network_was_away_is_back_by_itself(tmp_path: Path, who: str) -> None:
    with Conference(tmp_path, [Place("ann"), Place("bob")]) as conference:
        ann, bob = hosts(conference)
        film, viewer = watching(ann, bob)
        host = {"ann": ann, "bob": bob}[who]
        host.namespace.run(["ip", "link", "set", INTERFACE, "down"])
        time.sleep(AWAY_S)
        host.namespace.run(["ip", "link", "set", INTERFACE, "up"])
        assert not host.has_left()
        longest_gaps_s({who: viewer})
        assert film.is_part(viewer.hashes()[-2 * SECOND :])


def test_a_publisher_who_comes_back_with_another_codec_is_described_anew(tmp_path: Path) -> None:
    with Conference(tmp_path, [Place("ann"), Place("bob")]) as conference:
        ann, bob = hosts(conference)
        film = films.video(ann, "red")
        ann.join(publish={"video": film.sdp})
        bob.join(receive=["ann/video"])
        sdp = bob.received("ann/video")
        assert "H264/90000" in sdp.read_text()
        ann.leave()
        ann.join(publish={"video": gstreamer.description(ann)})
        wait(lambda: "VP8/90000" in sdp.read_text(), sdp.read_text)


SEND = """
import socket, sys
to = ("127.0.0.1", int(sys.argv[1]))
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
    for length in map(int, sys.argv[2:]):
        udp.sendto(bytes([0x80, 96]) + bytes(length - 2), to)
"""


IPV6_ONLY = Place("ann", ipv4=False, ipv6=True)


@pytest.mark.parametrize(
    ("ann_at", "most"), [(Place("ann"), 1_472), (IPV6_ONLY, 1_452)], ids=["IPv4", "IPv6"]
)
def test_packets_that_do_not_fit_the_way_are_told_of_and_others_go_on(
    tmp_path: Path, ann_at: Place, most: int
) -> None:
    with Conference(tmp_path, [ann_at, Place("bob")]) as conference:
        ann, bob = hosts(conference)
        sdp = gstreamer.description(ann)
        ann.join(publish={"video": sdp})
        bob.join(receive=["ann/video"])
        bob.received("ann/video")
        [port] = re.findall(r"(?m)^m=video (\d+)", sdp.read_text())
        lengths = [str(length) for length in (most + 1, most, most + 500)]
        ann.namespace.run([sys.executable, "-c", SEND, port, *lengths])
        told = ann.joins_line(f"reprise: video: a packet of {most + 1} bytes is too long")
        assert f"the path to the switch carries {most}; 1 not sent so far" in told

        def counted() -> dict[str, Any]:
            there = conference.administer(lambda client: client.conference(CONFERENCE))
            legs: dict[str, Any] = there["participants"]["ann"]["legs"]
            found: dict[str, Any] = legs["video"].get("counted", {})
            return found

        # One packet must be counted, in addition to the hellos, with which a socket signs in.
        wait(lambda: counted().get("sent", {}).get("last_packet_ms"), lambda: str(counted()))


SPLIT = {
    socket.AF_INET: (socket.IPPROTO_IP, 10, 0),
    socket.AF_INET6: (socket.IPPROTO_IPV6, 23, 0),
}
"""IP_MTU_DISCOVER and IPV6_MTU_DISCOVER, each with DONT: the kernel splits what is too long."""


@pytest.mark.parametrize("ann_at", [Place("ann"), IPV6_ONLY], ids=["IPv4", "IPv6"])
def test_why_says_that_a_publishers_packets_come_in_pieces(tmp_path: Path, ann_at: Place) -> None:
    with Conference(tmp_path, [ann_at, Place("bob")]) as conference:
        ann, bob = hosts(conference)
        client = ann.client()
        bob.join()
        quality = {"name": "one", "max_kbps": 5_000, "leg": "cam"}
        has_been_told = threading.Event()

        def publish() -> None:
            client.join(CONFERENCE, "ann")
            there = client.publish(CONFERENCE, "ann", "cam", kind="video", qualities=[quality])
            media = MediaSocket(there["legs"]["cam"])
            media.sign_in(LIMIT_S)
            with media, socket.socket(fileno=os.dup(media.fileno())) as same:
                same.setsockopt(*SPLIT[same.family])
                while not has_been_told.is_set():
                    media.send(bytes([0x80, 96]) + bytes(2_000))
                    media.receive(0.02)

        def causes(of: Client) -> list[str]:
            path = ("conferences", CONFERENCE, "participants", "bob", "why", "ann", "cam")
            found: list[str] = of.request("GET", path)["causes"]
            return found

        with ThreadPoolExecutor() as pool:
            published = pool.submit(ann.namespace.call, publish)
            try:
                wait(
                    lambda: "fragmented" in conference.administer(causes) or published.done(),
                    lambda: str(conference.administer(causes)),
                )
                assert conference.administer(causes)[0] == "fragmented"
            finally:
                has_been_told.set()
            published.result()
