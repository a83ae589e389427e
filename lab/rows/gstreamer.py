"""GStreamer's `multiudpsink` as an SFU: `lab/baselines/gstreamer_sfu.py`."""

import json
from collections.abc import Sequence
from pathlib import Path

from lab.process import REPOSITORY, Child, ChildError, run
from lab.rows.redirects import Redirects
from lab.rows.row import Row
from lab.sites import SFU_CPU, SFU_IP, Participant, Stream, on_cpu

PYTHON = "/usr/bin/python3"
"""Debian's: PyGObject is a package of Debian's, not of the lab's environment."""
PROGRAM = REPOSITORY / "lab/baselines/gstreamer_sfu.py"
PLUGINS = "*/gstreamer-1.0/libgstudp.so"
TIMEOUT_S = 120.0


class GStreamerMultiUdpSink(Row):
    """One process; `udpsrc ! multiudpsink` for each stream. Payloads stay unchanged."""

    name = "gstreamer_multiudpsink"
    label = "GStreamer, multiudpsink"
    source = "what a user would pick"
    topologies = ("one_port", "port_per_host")
    packages = "gstreamer"
    _process: Child | None = None

    @classmethod
    def lacks(cls) -> str:
        """GStreamer's Python binding, or the plugin with the elements."""
        try:
            run([PYTHON, "-c", "import gi; gi.require_version('Gst', '1.0')"])
        except (ChildError, FileNotFoundError):
            return f"GStreamer's Python binding: run scripts/install-packages {cls.packages}"
        if not any(Path("/usr/lib").glob(PLUGINS)):
            return f"GStreamer's plugin udp: run scripts/install-packages {cls.packages}"
        return ""

    def start(self) -> None:
        """Starts the process; pipelines come with the streams."""
        self.site.give_address()
        # GStreamer keeps its cache about plugins here, not in the user's home.
        registry = f"GST_REGISTRY={self.folder / 'gstreamer-registry.bin'}"
        argv = ["env", registry, PYTHON, str(PROGRAM), str(SFU_IP)]
        log = self.folder / "gstreamer.log"
        self._process = self.site.sfu.start(on_cpu(SFU_CPU, argv), log)
        self._process.wait_for_line("ready:", TIMEOUT_S)
        self._redirects = Redirects(self.site)
        self._ports: dict[int, int] = {}
        self._n_told = 0

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        """Adds and removes the sink's clients."""
        if self._process is None:
            raise ChildError("GStreamer was not started")
        if stream.number not in self._ports:
            self._ports[stream.number] = self._redirects.port_of_its_own(stream)
        told = {
            "udp_port": self._ports[stream.number],
            "viewers": [(str(viewer.ip), stream.viewer_udp_port) for viewer in viewers],
        }
        self._process.tell(json.dumps(told))
        self._n_told += 1
        self._process.wait_for_line(f"done {self._n_told}", TIMEOUT_S)

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.stop()
            self._redirects.remove()

    @property
    def pids(self) -> tuple[int, ...]:
        """The one."""
        return () if self._process is None else (self._process.pid,)
