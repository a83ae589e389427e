"""Third-party programs in a conference: ffmpeg and GStreamer on hosts of all kinds.

Each host joins with `reprise join`, and its programs speak plain RTP on its loopback.
"""

import shutil
from pathlib import Path

import pytest

from tests.needs import need
from tests.service import films, gstreamer, jacktrip
from tests.service.conference import Conference, Host, hosts
from tests.service.everybody import (
    MOVED,
    MOVES,
    MUSICIANS,
    PLACES,
    RECEIVES,
    Everybody,
    publisher,
)
from tests.service.films import Viewer, longest_gaps_s
from tests.service.gstreamer import Camera, GstViewer
from tests.service.network import SWITCH_IPV6, Place

SECOND = films.FRAMES_PER_S
AWAY_S_MAX = 30.0
"""The longest time without frames after a move. It is generous, so that only a hang exceeds it: the
service keeps a leg (a socket's connection) at its old address until this address has been silent
for 3 s, and the host's hellos are at most 2 s apart."""
N_BLOCKS = 1_000
"""How many blocks of sound each musician must hear."""
PLI_FRAMES_MAX = 3
"""How many frames a camera may already have begun to encode when a PLI comes."""


pytestmark = pytest.mark.usefixtures("namespaces")


@pytest.fixture(autouse=True)
def _translator() -> None:
    need("" if shutil.which("nft") else "nft (scripts/install-packages nftables)")


def test_who_loses_nothing_decodes_the_frames_of_the_file(tmp_path: Path) -> None:
    with Conference(tmp_path, [Place("ann"), Place("bob"), Place("cid")]) as conference:
        ann, bob, cid = hosts(conference)
        video, sound = films.video(ann, "red"), films.sound(ann, 1)
        ann.join(publish={"video": video.sdp, "audio": sound.sdp})
        bob.join(receive=["ann/video", "ann/audio"])
        seen, heard = Viewer(bob, "ann/video"), Viewer(bob, "ann/audio")
        films.send(ann, video)
        films.send(ann, sound)
        # A viewer that listens before the first packet lacks no frame, even after the film has
        # begun again.
        assert seen.until(len(video.hashes) + SECOND)[: len(video.hashes)] == video.hashes
        assert heard.until(1)[0] == sound.hashes[0]
        # A viewer that joins later begins with the next key frame.
        cid.join(receive=["ann/video"])
        late = Viewer(cid, "ann/video").until(5 * SECOND)
        assert video.begins_with_key_frame(late)
        for film, hashes in ((video, late), (video, seen.hashes()), (sound, heard.hashes())):
            assert film.is_part(hashes)


def test_a_pli_of_a_viewer_reaches_the_presenter_and_a_key_frame_follows(tmp_path: Path) -> None:
    need(gstreamer.lacks())
    with Conference(tmp_path, [Place("ann"), Place("bob"), Place("cid")]) as conference:
        ann, bob, cid = hosts(conference)
        ann.join(publish={"video": gstreamer.description(ann)})
        camera = Camera(ann, "ball")
        camera.until(SECOND)
        bob.join(receive=["ann/video"])
        viewer = GstViewer(bob, "ann/video")
        # The viewer gets no picture before a key frame, and asks for one.
        viewer.until(2 * SECOND)
        assert camera.key_frames()[0] == 0
        assert viewer.key_frames()[0] == 0
        cid.join(receive=["ann/video"])
        ffmpeg = Viewer(cid, "ann/video")
        n_before = len(camera.those("pli"))
        viewer.ask_for_key_frame()
        ffmpeg.until(2 * SECOND)
        asked = camera.those("pli")
        assert len(asked) > n_before
        for number in asked:
            assert any(0 <= key - number <= PLI_FRAMES_MAX for key in camera.key_frames())
        # The camera made no other key frames than the first one and at most one for each PLI.
        assert 1 < len(camera.key_frames()) <= 1 + len(asked)
        assert camera.is_part(viewer.hashes())
        assert camera.is_part(ffmpeg.hashes())
        report = camera.until_report_of(viewer.ssrc)
        assert report["of"] == camera.ssrc
        assert report["lost"] <= 0


def test_hosts_behind_a_translator_and_a_router_send_and_receive(tmp_path: Path) -> None:
    with Conference(tmp_path, [Place("dan", "nat"), Place("eve", "router")]) as conference:
        dan, eve = hosts(conference)
        _watch_each_other(conference, dan, eve)


def test_ipv6_hosts_send_and_receive(tmp_path: Path) -> None:
    places = [Place(name, ipv4=False, ipv6=True) for name in ("fay", "gus")]
    with Conference(tmp_path, places, media=[SWITCH_IPV6]) as conference:
        _watch_each_other(conference, *hosts(conference))


def test_an_ipv6_host_and_an_ipv4_host_watch_each_other(tmp_path: Path) -> None:
    places = [Place("ann"), Place("fay", ipv4=False, ipv6=True)]
    with Conference(tmp_path, places) as conference:
        _watch_each_other(conference, *hosts(conference))


def _watch_each_other(conference: Conference, one: Host, other: Host) -> None:
    sent = {host: films.video(host, colour) for host, colour in ((one, "red"), (other, "blue"))}
    for host, of in ((one, other), (other, one)):
        host.join(publish={"video": sent[host].sdp}, receive=[f"{of.name}/video"])
    viewers = {of: Viewer(host, f"{of.name}/video") for host, of in ((one, other), (other, one))}
    for host, film in sent.items():
        films.send(host, film)
    for of, viewer in viewers.items():
        hashes = viewer.until(3 * SECOND)
        assert hashes == sent[of].hashes[: len(hashes)]
    assert conference.subscriptions() == {
        one.name: {f"{other.name}/video"},
        other.name: {f"{one.name}/video"},
    }


@pytest.mark.parametrize(("behind", "who_changes"), [("nat", "nat"), ("", "dan")])
def test_media_goes_on_when_an_address_changes(
    tmp_path: Path, behind: str, who_changes: str
) -> None:
    with Conference(tmp_path, [Place("dan", behind), Place("eve")]) as conference:
        dan, eve = hosts(conference)
        films_of = {host.name: films.video(host, "red") for host in (dan, eve)}
        for host, of in ((dan, "eve"), (eve, "dan")):
            host.join(publish={"video": films_of[host.name].sdp}, receive=[f"{of}/video"])
        viewers = {"eve": Viewer(dan, "eve/video"), "dan": Viewer(eve, "dan/video")}
        for host in (dan, eve):
            films.send(host, films_of[host.name])
        for of, viewer in viewers.items():
            assert films_of[of].is_part(viewer.until(SECOND))
        conference.network.change_address(who_changes, "10.0.1.252")
        away = longest_gaps_s(viewers)
        print(f"away, in s: from dan {away['dan']:.1f}, to dan {away['eve']:.1f}")
        assert max(away.values()) < AWAY_S_MAX
        for of, viewer in viewers.items():
            assert films_of[of].is_part(viewer.hashes()[-2 * SECOND :])


def test_eight_participants_get_what_they_subscribed_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(gstreamer.lacks())
    need(jacktrip.lacks())
    with (
        jacktrip.jack_server(tmp_path, monkeypatch) as jack,
        Conference(tmp_path, PLACES) as conference,
    ):
        everybody = Everybody(conference)
        with (
            everybody.music() as trips,
            jacktrip.Sounds(tmp_path, MUSICIANS, N_BLOCKS) as sounds,
        ):
            sounds.check(
                lambda: jack.said[-2_000:] + "".join(it.log_text()[-2_000:] for it in trips)
            )
        for (name, path), viewer in everybody.viewers.items():
            hashes = viewer.until(2 * SECOND)
            assert everybody.is_part(path, hashes), (name, path, conference.drops())
        assert conference.subscriptions() == {name: set(of) for name, of in RECEIVES.items()}
        for who, address in MOVES.items():
            conference.network.change_address(who, address)
        moved = {
            (name, path): viewer
            for (name, path), viewer in everybody.viewers.items()
            if MOVED & {name, publisher(path)}
        }
        for (name, path), gap_s in longest_gaps_s(moved).items():
            print(f"{name} was without {path} for {gap_s:.1f} s")
            assert gap_s < AWAY_S_MAX
        # Viewers that no move affects have lost nothing during the whole test.
        for (name, path), viewer in everybody.viewers.items():
            hashes = viewer.hashes()
            if (name, path) in moved:
                hashes = hashes[-2 * SECOND :]
            assert everybody.is_part(path, hashes), (name, path, conference.drops())


def test_who_leaves_and_comes_back_is_seen_by_who_has_stayed(tmp_path: Path) -> None:
    with Conference(tmp_path, [Place("ann"), Place("bob")]) as conference:
        ann, bob = hosts(conference)
        film = films.video(ann, "red")
        ann.join(publish={"video": film.sdp})
        bob.join(receive=["ann/video"])
        viewer = Viewer(bob, "ann/video")
        films.send(ann, film)
        assert film.is_part(viewer.until(SECOND))
        ann.leave()
        assert conference.subscriptions() == {"bob": {"ann/video"}}
        ann.join(publish={"video": film.sdp})
        longest_gaps_s({"ann": viewer})
        assert film.is_part(viewer.hashes()[-2 * SECOND :])
