"""GStreamer's `multiudpsink` as an SFU: `lab/baselines/gstreamer_sfu.py`."""

import json
from collections.abc import Sequence
from pathlib import Path

from lab.colours import INDIGO
from lab.process import REPOSITORY, ChildError, run
from lab.rows.redirects import RedirectedRow
from lab.sites import SFU_IP, Participant, Stream

PYTHON = "/usr/bin/python3"
"""Debian's own Python: PyGObject is installed as a Debian package, not in the lab's environment."""
PROGRAM = REPOSITORY / "lab/baselines/gstreamer_sfu.py"
PLUGINS = "*/gstreamer-1.0/libgstudp.so"


class GStreamerMultiUdpSink(RedirectedRow):
    """One process, with `udpsrc ! multiudpsink` for each stream. Payloads stay unchanged."""

    name = "gstreamer_multiudpsink"
    label = "GStreamer, multiudpsink"
    look = (INDIGO, "p")
    rank = 12
    packages = "gstreamer"

    @classmethod
    def lacks(cls) -> str:
        """Returns what is missing: GStreamer's Python binding, or the plugin with the elements.

        Returns an empty string if nothing is missing.
        """
        try:
            run([PYTHON, "-c", "import gi; gi.require_version('Gst', '1.0')"])
        except (ChildError, FileNotFoundError):
            return f"GStreamer's Python binding: run scripts/install-packages {cls.packages}"
        if not any(Path("/usr/lib").glob(PLUGINS)):
            return f"GStreamer's plugin udp: run scripts/install-packages {cls.packages}"
        return ""

    def start(self) -> None:
        """Starts the process. It makes a pipeline for each stream later."""
        self.site.give_address()
        # With this variable GStreamer keeps its cache of plugins in the row's folder, not in the
        # user's home.
        registry = f"GST_REGISTRY={self.folder / 'gstreamer-registry.bin'}"
        argv = ["env", registry, PYTHON, str(PROGRAM), str(SFU_IP)]
        self.launch(argv, "gstreamer.log", "ready:")
        self._ports: dict[int, int] = {}

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        if stream.number not in self._ports:
            self._ports[stream.number] = self._redirects.port_of_its_own(stream)
        told = {
            "udp_port": self._ports[stream.number],
            "viewers": [(str(viewer.ip), stream.viewer_udp_port) for viewer in viewers],
        }
        self.tell(json.dumps(told))
