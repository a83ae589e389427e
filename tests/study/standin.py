"""A row (SFU) for tests: `tests/study/forwarder.py`, which can make mistakes on purpose."""

import json
import sys
from collections.abc import Sequence
from typing import ClassVar

from lab.rows.row import ProcessRow
from lab.sites import Participant, Stream


class StandIn(ProcessRow):
    name = "standin"
    label = "stand-in"
    source = "tests"
    topologies = ("one_port", "port_per_host")
    options: ClassVar[tuple[str, ...]] = ()

    def start(self) -> None:
        links = [link.sfu_interface for link in self.site.links]
        argv = [sys.executable, "-m", "tests.study.forwarder", *links, *self.options]
        self.launch(argv, "standin.log", "ready:")

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        told = [
            {"ip": str(viewer.ip), "mac": viewer.mac, "port": viewer.port}
            | {"udp_port": stream.viewer_udp_port}
            for viewer in viewers
        ]
        of = {"ip": str(stream.sender.ip), "udp_port": stream.udp_port}
        self.tell(json.dumps({**of, "viewers": told}))
