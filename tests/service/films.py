"""Films and sounds that ffmpeg sends, and processes of ffmpeg that receive and report frames.

Films and sounds are encoded once and then sent again and again, so that only the network can change
a frame. A viewer that loses nothing decodes exactly the frames that ffmpeg decodes from the file.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from lab.process import run
from lab.video import FFMPEG, RTP_PACKET_LEN_BYTES
from tests.service.conference import Host, wait
from tests.service.running import LIMIT_S

FRAMES_PER_S = 10
KEY_FRAME_EVERY = 10
DURATION_S = 10
SIZE = "160x120"
Key = TypeVar("Key")
_QUIET = [*FFMPEG, "-v", "error"]


@dataclass(frozen=True, slots=True)
class Film:
    """A film or sound that a host sends in a loop, and the frames' hashes, which all differ.

    For sound, a frame is an encoded packet of Opus, because what a decoder makes of a packet
    depends on the packets before.
    """

    file: Path
    sdp: Path
    hashes: list[str]

    def is_part(self, hashes: list[str]) -> bool:
        """Whether these hashes follow each other in the film, which begins again after its end."""
        if not hashes or hashes[0] not in self.hashes:
            return False
        first = self.hashes.index(hashes[0])
        n = len(self.hashes)
        return hashes == [self.hashes[(first + i) % n] for i in range(len(hashes))]

    def begins_with_key_frame(self, hashes: list[str]) -> bool:
        return self.hashes.index(hashes[0]) % KEY_FRAME_EVERY == 0


def video(host: Host, colour: str, port: int = 5006) -> Film:
    """Makes a film in H.264: ffmpeg's test pattern with a coloured border."""
    pattern = f"testsrc2=size={SIZE}:rate={FRAMES_PER_S},drawbox=color={colour}:t=12"
    encoder = ["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-bf", "0"]
    encoder += ["-g", str(KEY_FRAME_EVERY), "-b:v", "200k", "-pix_fmt", "yuv420p"]
    return _film(host.folder / "video.mkv", pattern, encoder, port)


def sound(host: Host, seed: int, port: int = 5008) -> Film:
    """Makes noise in Opus, 50 packets a second. A tone would give many packets the same bytes."""
    pattern = f"anoisesrc=seed={seed}:amplitude=0.3:sample_rate=48000"
    return _film(host.folder / "audio.mkv", pattern, ["-c:a", "libopus", "-b:a", "48k"], port)


def _film(file: Path, pattern: str, encoder: list[str], port: int) -> Film:
    source = ["-f", "lavfi", "-i", pattern, "-t", str(DURATION_S)]
    run([*_QUIET, *source, *encoder, "-threads", "1", str(file)])
    hashes = file.with_suffix(".framemd5")
    run([*_QUIET, "-i", str(file), *_hashing(file.stem, hashes)])
    sdp = file.with_suffix(".sdp")
    # The muxer writes the session description when it starts, so it is enough to send one frame,
    # which goes to the discard port.
    once = ["-c", "copy", "-frames", "1", "-f", "rtp", "-sdp_file", str(sdp)]
    run([*_QUIET, "-i", str(file), *once, "rtp://127.0.0.1:9"])
    text = re.sub(r"(?m)^(m=\w+) \d+", rf"\1 {port}", sdp.read_text().replace("SDP:\n", ""))
    sdp.write_text(text)
    film = Film(file, sdp, hashes_in(hashes))
    assert len(set(film.hashes)) == len(film.hashes)
    return film


def _hashing(name: str, file: Path) -> list[str]:
    how = ["-c", "copy"] if name == "audio" else ["-fps_mode", "passthrough", "-threads", "1"]
    return [*how, "-flags", "bitexact", "-flush_packets", "1", "-f", "framemd5", str(file)]


def hashes_in(file: Path) -> list[str]:
    """The hashes in a file of ffmpeg's framemd5 format, in order, without unfinished lines."""
    if not file.exists():
        return []
    lines = file.read_text().splitlines(keepends=True)
    frames = [line for line in lines if line.endswith("\n") and not line.startswith("#")]
    # Side data of a packet has further columns.
    return [line.split(",")[5].strip() for line in frames]


def send(host: Host, film: Film) -> None:
    """Sends a film to where its description says, until the conference ends."""
    [port] = re.findall(r"(?m)^m=\w+ (\d+)", film.sdp.read_text())
    url = f"rtp://127.0.0.1:{port}?pkt_size={RTP_PACKET_LEN_BYTES}"
    source = ["-v", "warning", "-re", "-stream_loop", "-1", "-i", film.file]
    host.start([*FFMPEG, *source, "-c", "copy", "-f", "rtp", url], f"send-{film.file.stem}")


class Viewer:
    """An ffmpeg that receives a track on this host, and writes a hash of every frame."""

    def __init__(self, host: Host, path: str) -> None:
        """Returns when ffmpeg listens. The host must receive the track already, or soon."""
        self.path = path
        sdp = host.received(path)
        self._hashes = sdp.with_suffix(".framemd5")
        [(kind, port)] = re.findall(r"(?m)^m=(\w+) (\d+)", sdp.read_text())
        # ffmpeg must neither sort packets, so that a wrong order shows, nor end when nothing
        # arrives.
        source = ["-protocol_whitelist", "file,udp,rtp", "-reorder_queue_size", "0"]
        source += ["-listen_timeout", str(int(LIMIT_S))]
        source += ["-buffer_size", str(1 << 20), "-analyzeduration", "1000000", "-threads", "1"]
        argv = [*FFMPEG, "-v", "warning", *source, "-i", sdp, *_hashing(kind, self._hashes)]
        self._child = host.start(argv, f"view-{sdp.stem}")
        listens = f":{int(port):04X} "
        wait(lambda: listens in host.namespace.run(["cat", "/proc/net/udp"]), self._said)

    def _said(self) -> str:
        return self._child.log_text()

    def hashes(self) -> list[str]:
        return hashes_in(self._hashes)

    def until(self, n: int) -> list[str]:
        """Waits for `n` more frames; returns the hashes of all frames so far."""
        target = len(self.hashes()) + n
        return wait(lambda: found if len(found := self.hashes()) >= target else None, self._said)


class Hashes(Protocol):
    """What viewers of all programs have in common."""

    def hashes(self) -> list[str]: ...


def longest_gaps_s(viewers: Mapping[Key, Hashes]) -> dict[Key, float]:
    """Watches until each viewer has enough frames; returns each viewer's longest wait for a
    frame."""
    began_s = time.monotonic()
    counts = {of: len(viewer.hashes()) for of, viewer in viewers.items()}
    enough = {of: n + 5 * FRAMES_PER_S for of, n in counts.items()}
    came_s = dict.fromkeys(viewers, began_s)
    gaps_s = dict.fromkeys(viewers, 0.0)
    while any(counts[of] < n for of, n in enough.items()):
        time.sleep(0.02)
        now_s = time.monotonic()
        assert now_s - began_s < LIMIT_S, counts
        for of, viewer in viewers.items():
            gaps_s[of] = max(gaps_s[of], now_s - came_s[of])
            if (n := len(viewer.hashes())) > counts[of]:
                counts[of], came_s[of] = n, now_s
    return gaps_s
