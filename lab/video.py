"""Sends a video through the SFU: ffmpeg encodes it once and sends it over RTP; viewers decode it.

The encoded stream is sent unchanged (`-c copy`). So a viewer that gets every packet decodes, bit
for bit, the same frames as a decoder of the file.

ffmpeg 5.1 notices the end of an RTP stream by an RTCP BYE, or after ten seconds of silence. It then
flushes its decoder, so that every frame is compared, also the last one. (A SIGINT does not wake
ffmpeg while it waits for a packet.)
"""

import re
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from lab.addresses import SFU_IP, SFU_UDP_PORT, ip_of
from lab.netns import Namespace
from lab.process import POLL_INTERVAL_S, Child, ChildError, run

RTP_PACKET_LEN_BYTES = 1200
"""Small enough that a packet with all headers fits an MTU of 1500."""
FRAMES_PER_S = 30
SIZE = "1280x720"
FFMPEG = ["ffmpeg", "-hide_banner", "-nostdin", "-y"]
LISTENING_TIMEOUT_S = 120.0
ENDING_TIMEOUT_S = 120.0
QUIET_S = 1.0
"""A viewer whose socket and frame count have not changed for this long has received everything."""
RTCP_BYE = bytes.fromhex("80c900010000000081cb000100000000")
"""An empty receiver report, with which a compound packet must begin (RFC 3550, section 6.1), and a
BYE."""


@dataclass(frozen=True, slots=True)
class Video:
    """An encoded test video, the hash of each of its decoded frames, and its SDP (RFC 8866)."""

    file: Path
    frame_hashes: list[str]
    sdp: str

    @property
    def duration_s(self) -> float:
        return len(self.frame_hashes) / FRAMES_PER_S


@dataclass(frozen=True, slots=True)
class Watched:
    viewer: int
    frame_hashes: list[str]


def make_video(duration_s: int, folder: Path) -> Video:
    """Encodes ffmpeg's test pattern as H.264: a key frame each second, no reordered frames."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "video.mp4"
    pattern = f"testsrc2=size={SIZE}:rate={FRAMES_PER_S}"
    encoder = ["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-bf", "0"]
    rate = ["-g", str(FRAMES_PER_S), "-b:v", "2M", "-maxrate", "2M", "-bufsize", "1M"]
    quiet = [*FFMPEG, "-v", "error"]
    source = ["-f", "lavfi", "-i", pattern, "-t", str(duration_s)]
    run([*quiet, *source, *encoder, *rate, "-pix_fmt", "yuv420p", str(file)], timeout_s=120.0)
    hashes = folder / "video.framemd5"
    run([*quiet, "-i", str(file), *_hashing(hashes)], timeout_s=120.0)
    # The muxer writes the SDP when it starts, so it is enough to send one frame to the local
    # discard port.
    sdp = folder / "video.sdp"
    once = ["-c", "copy", "-frames:v", "1", "-f", "rtp", "-sdp_file", str(sdp)]
    run([*quiet, "-i", str(file), *once, "rtp://127.0.0.1:9"])
    return Video(file, read_frame_hashes(hashes), sdp.read_text())


def send(video: Video, presenter: Namespace, log: Path) -> Child:
    """Starts to send `video` to the SFU at the video's frame rate."""
    url = f"rtp://{SFU_IP}:{SFU_UDP_PORT}?pkt_size={RTP_PACKET_LEN_BYTES}"
    source = ["-v", "info", "-nostats", "-re", "-i", str(video.file)]
    return presenter.start([*FFMPEG, *source, "-c", "copy", "-an", "-f", "rtp", url], log)


def sdp_for(sdp: str, ip: str, udp_port: int) -> str:
    """Returns `sdp` with the address and port at which a viewer listens."""
    addressed = re.sub(r"(?m)^(c=IN IP4) \S+", rf"\1 {ip}", sdp)
    return re.sub(r"(?m)^(m=video) \d+", rf"\1 {udp_port}", addressed).replace("SDP:\n", "")


class Watching:
    """A viewer's ffmpeg, which decodes the received packets and writes a hash of every frame."""

    def __init__(self, video: Video, viewer: int, namespace: Namespace, folder: Path) -> None:
        self.viewer = viewer
        self._namespace = namespace
        self._hashes = folder / f"h{viewer}.framemd5"
        sdp = folder / f"h{viewer}.sdp"
        sdp.write_text(sdp_for(video.sdp, ip_of(viewer), SFU_UDP_PORT))
        # ffmpeg must not reorder packets: the SFU keeps the order, and a wrong order must show.
        source = ["-protocol_whitelist", "file,udp,rtp", "-reorder_queue_size", "0"]
        buffer = ["-buffer_size", str(8 << 20), "-analyzeduration", "1000000"]
        progress = ["-v", "warning", "-nostats", "-stats_period", "0.1", "-progress", "pipe:1"]
        argv = [*FFMPEG, *progress, *source, *buffer, "-threads", "1", "-i", str(sdp)]
        self.child = namespace.start(
            [*argv, *_hashing(self._hashes)], folder / f"h{viewer}-ffmpeg.log"
        )

    def wait_until_listening(self) -> None:
        deadline_s = time.monotonic() + LISTENING_TIMEOUT_S
        while self._queue() is None:
            if self.child.exit_code is not None or time.monotonic() > deadline_s:
                raise self.child.fail("does not listen")
            time.sleep(POLL_INTERVAL_S)

    def n_frames(self) -> int:
        counts = re.findall(r"(?m)^frame=\s*(\d+)$", self.child.log_text())
        return int(counts[-1]) if counts else 0

    def finish(self) -> Watched:
        """Waits until no more packets arrive, ends the stream, reads decoded frames' hashes."""
        seen, changed_s = "", time.monotonic()
        while time.monotonic() - changed_s < QUIET_S:
            now = f"{self.n_frames()} {self._queue()}"
            if now != seen:
                seen, changed_s = now, time.monotonic()
            time.sleep(POLL_INTERVAL_S)
        # The BYE goes from the viewer to itself, because the end of a stream is not under test.
        self._namespace.call(self._say_bye)
        self.child.expect_success(ENDING_TIMEOUT_S)
        return Watched(self.viewer, read_frame_hashes(self._hashes))

    def _say_bye(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(RTCP_BYE, (ip_of(self.viewer), SFU_UDP_PORT + 1))

    def _queue(self) -> str | None:
        """The viewer's line in /proc/net/udp, with the number of unread bytes, or None."""
        sockets = self._namespace.run(["cat", "/proc/net/udp"]).splitlines()
        wanted = f":{SFU_UDP_PORT:04X} "
        return next((line for line in sockets if wanted in line), None)


def watch(
    video: Video, presenter: Namespace, viewers: Sequence[tuple[int, Namespace]], folder: Path
) -> list[Watched]:
    with ExitStack() as stack:
        watching = []
        for viewer, namespace in viewers:
            one = Watching(video, viewer, namespace, folder)
            stack.enter_context(one.child)
            watching.append(one)
        for one in watching:
            one.wait_until_listening()
        _resolve_sfu(presenter, folder / "presenter-ping.log")
        with send(video, presenter, folder / "presenter-ffmpeg.log") as sender:
            sender.expect_success(video.duration_s + LISTENING_TIMEOUT_S)
        return [one.finish() for one in watching]


def _resolve_sfu(presenter: Namespace, log: Path) -> None:
    """Makes `presenter` learn the SFU's MAC.

    Packets that wait for an ARP reply may be reordered inside the sender's own kernel, and a key
    frame is many packets at once.
    """
    deadline_s = time.monotonic() + LISTENING_TIMEOUT_S
    with presenter.start(["ping", "-c", "1", SFU_IP], log) as ping:
        while "lladdr" not in presenter.run(["ip", "neighbour", "show", SFU_IP]):
            if time.monotonic() > deadline_s:
                raise ping.fail("finds no MAC for the SFU")
            time.sleep(POLL_INTERVAL_S)


def read_frame_hashes(file: Path) -> list[str]:
    """The hashes in a file of ffmpeg's framemd5 format, in order."""
    if not file.exists():
        raise ChildError(f"ffmpeg wrote no {file}: it decoded nothing")
    lines = file.read_text().splitlines()
    return [line.rsplit(",", 1)[1].strip() for line in lines if line and not line.startswith("#")]


def _hashing(file: Path) -> list[str]:
    options = ["-an", "-fps_mode", "passthrough", "-flags", "bitexact", "-threads", "1"]
    return [*options, "-f", "framemd5", str(file)]
