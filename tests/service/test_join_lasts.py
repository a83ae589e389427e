"""`reprise join` stays when the service, the host's network or a publisher is away for a while."""

import time
from pathlib import Path

import pytest

from lab.netns import NamespaceError, require_namespaces
from tests.needs import need
from tests.service import films, gstreamer
from tests.service.conference import Conference, Host, hosts, wait
from tests.service.films import Film, Viewer, longest_gaps_s
from tests.service.network import INTERFACE, Place

AWAY_S = 8.0
"""Longer than the pause in which `reprise join` reads the conference."""
SECOND = films.FRAMES_PER_S


@pytest.fixture(autouse=True)
def _machine() -> None:
    try:
        require_namespaces()
    except NamespaceError as error:
        need(str(error))


def watching(ann: Host, bob: Host) -> tuple[Film, Viewer]:
    """A film that ann sends, and bob's viewer, who sees it."""
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
