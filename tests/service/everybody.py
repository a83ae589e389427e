"""A conference of eight participants on hosts of all kinds: ffmpeg, GStreamer and JackTrip."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from lab.process import Child
from tests.service import films, gstreamer, jacktrip
from tests.service.conference import Conference, hosts
from tests.service.films import Viewer
from tests.service.gstreamer import Camera, GstViewer
from tests.service.network import Place
from tests.service.running import LIMIT_S

RECEIVES = {
    "ann": ["bob/video", "dan/video"],
    "bob": ["ann/video", "cid/video"],
    "cid": ["bob/video", "eve/video", "eve/audio"],
    "dan": ["eve/video"],
    "eve": ["dan/video", "bob/video", "cid/audio"],
    "fay": ["ann/video", "gus/video"],
    "gus": ["fay/video", "ann/audio"],
    "hal": ["ann/video", "ann/audio", "cid/video"],
}
PLACES = [
    *(Place("ann"), Place("bob"), Place("cid")),
    *(Place("dan", "nat"), Place("eve", "router"), Place("fay")),
    *(Place("gus", ipv4=False, ipv6=True), Place("hal")),
]
MOVES = {"nat": "10.0.1.252", "fay": "10.0.1.77"}
"""The hosts that change their address in the middle of the test, each with its new address."""
MOVED = {"dan", "fay"}
# These patterns and colours distinguish the cameras and films.
PATTERNS = {"bob": "ball", "cid": "pinwheel"}
COLOURS = {"ann": "red", "dan": "blue", "eve": "green", "fay": "yellow", "gus": "purple"}
MUSICIANS = ("cid", "eve")
"""They play to each other with JackTrip."""
WATCHED_BY_GSTREAMER = {("cid", "bob/video"), ("hal", "cid/video")}


class Everybody:
    """The participants with all that they send and watch."""

    def __init__(self, conference: Conference) -> None:
        self._hosts = {host.name: host for host in hosts(conference)}
        self.films = {
            f"{name}/video": films.video(self._hosts[name], COLOURS[name]) for name in COLOURS
        }
        self.films["ann/audio"] = films.sound(self._hosts["ann"], 1)
        for name, host in self._hosts.items():
            track = "audio" if name in MUSICIANS else ""
            host.join(publish=self._published(name), datagrams=track, receive=RECEIVES[name])
        self.viewers = {
            (name, path): self._viewer(name, path)
            for name in RECEIVES
            for path in RECEIVES[name]
            if not is_music(path)
        }
        for path, film in self.films.items():
            films.send(self._hosts[publisher(path)], film)
        self.cameras = {
            f"{name}/video": Camera(self._hosts[name], pattern)
            for name, pattern in PATTERNS.items()
        }

    @contextlib.contextmanager
    def music(self) -> Iterator[list[Child]]:
        """Runs the musicians' JackTrips during the block."""
        trips = []
        for name, other in zip(MUSICIANS, reversed(MUSICIANS), strict=True):
            host = self._hosts[name]
            port = host.datagrams_port(f"{other}/audio")
            trips.append(host.start(jacktrip.client(name, port), "jacktrip"))
        try:
            yield trips
        finally:
            # A client that is killed keeps JACK's server from ending for a while.
            for trip in trips:
                trip.interrupt()
            for trip in trips:
                trip.wait(LIMIT_S)

    def _published(self, name: str) -> dict[str, Path]:
        if name in PATTERNS:
            return {"video": gstreamer.description(self._hosts[name])}
        return {
            path.rpartition("/")[2]: film.sdp
            for path, film in self.films.items()
            if publisher(path) == name
        }

    def _viewer(self, name: str, path: str) -> Viewer | GstViewer:
        kind = GstViewer if (name, path) in WATCHED_BY_GSTREAMER else Viewer
        return kind(self._hosts[name], path)

    def is_part(self, path: str, hashes: list[str]) -> bool:
        """Whether the publisher of a track has sent these frames, one after the other."""
        return (self.films.get(path) or self.cameras[path]).is_part(hashes)


def is_music(path: str) -> bool:
    return path in [f"{name}/audio" for name in MUSICIANS]


def publisher(path: str) -> str:
    return path.partition("/")[0]
