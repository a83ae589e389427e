"""Cameras and viewers made with GStreamer, on hosts of a conference; they run `rtpbin.py`."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.service.conference import Host, wait

DEBIANS_PYTHON = "/usr/bin/python3"
_SCRIPT = Path(__file__).with_name("rtpbin.py")
_CHECK = """
import gi
for name in ("Gst", "GstNet", "GstVideo"):
    gi.require_version(name, "1.0")
from gi.repository import Gst, GstNet, GstVideo
Gst.init(None)
for element in ("rtpbin", "udpsrc", "rtpvp8pay", "vp8enc", "videotestsrc"):
    assert Gst.ElementFactory.find(element), element
"""


def lacks() -> str:
    """What the machine lacks of GStreamer; empty if nothing."""
    try:
        done = subprocess.run([DEBIANS_PYTHON, "-c", _CHECK], capture_output=True, check=False)
    except FileNotFoundError:
        return f"{DEBIANS_PYTHON}, Debian's own Python"
    return "GStreamer (scripts/install-packages gstreamer)" if done.returncode else ""


class _Program:
    def __init__(self, host: Host, log: str, *words: object) -> None:
        self._child = host.start([DEBIANS_PYTHON, _SCRIPT, *words], log)

    def said(self) -> list[dict[str, Any]]:
        """All that the program has printed, without unfinished lines."""
        lines = self._child.log_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}\n")]

    def those(self, name: str) -> list[Any]:
        return [line[name] for line in self.said() if name in line]

    def hashes(self) -> list[str]:
        return self.those("frame")

    def key_frames(self) -> list[int]:
        """Returns the numbers of those frames that are key frames."""
        return [number for number, is_key in enumerate(self.those("key")) if is_key]

    def until(self, n: int) -> list[str]:
        """Waits for `n` more frames; returns the hashes of all frames so far."""
        target = len(self.hashes()) + n
        return wait(
            lambda: found if len(found := self.hashes()) >= target else None, self._child.log_text
        )

    @property
    def ssrc(self) -> int:
        [ssrc] = wait(lambda: self.those("ssrc"), self._child.log_text)
        return int(ssrc)


class Camera(_Program):
    """Sends VP8; the picture has one of the patterns of GStreamer's videotestsrc."""

    def __init__(self, host: Host, pattern: str, port: int = 5006) -> None:
        super().__init__(host, "camera", "camera", pattern, port)

    def until_report_of(self, reporter: int) -> dict[str, Any]:
        """Waits until this receiver has reported; returns its newest report."""
        return wait(
            lambda: next(
                (line for line in reversed(self.said()) if line.get("report") == reporter), None
            ),
            self._child.log_text,
        )

    def is_part(self, hashes: list[str]) -> bool:
        """Whether these hashes follow each other among those of the sent frames.

        The camera itself decodes the frames that it sends, for their hashes.
        """
        # A frame that a viewer has decoded will also be decoded by the camera.
        wait(lambda: not hashes or hashes[-1] in self.hashes(), self._child.log_text)
        sent = self.hashes()
        n = len(hashes)
        return n > 0 and any(sent[at : at + n] == hashes for at in range(len(sent)))


def description(host: Host, port: int = 5006) -> Path:
    """Writes the session description of a camera that sends to this port; returns its path."""
    file = host.folder / "video.sdp"
    file.write_text(
        "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\n"
        f"m=video {port} RTP/AVPF 96\r\na=rtpmap:96 VP8/90000\r\na=rtcp-fb:96 nack pli\r\n"
    )
    return file


class GstViewer(_Program):
    """Receives one of the host's tracks, which must be in VP8."""

    def __init__(self, host: Host, path: str) -> None:
        self.path = path
        sdp = host.received(path)
        [port] = re.findall(r"(?m)^m=video (\d+)", sdp.read_text())
        super().__init__(host, f"view-{sdp.stem}", "viewer", port)

    def ask_for_key_frame(self) -> None:
        self._child.tell("pli")
