"""A row for tests: `tests/study/forwarder.py`, which makes mistakes where it is told to."""

import itertools
import json
import sys
from collections.abc import Sequence
from typing import ClassVar

from lab.process import Child
from lab.rows.row import Row
from lab.sites import SFU_CPU, Participant, Stream, on_cpu

START_TIMEOUT_S = 120.0


class StandIn(Row):
    name = "standin"
    label = "stand-in"
    source = "tests"
    topologies = ("one_port", "port_per_host")
    options: ClassVar[tuple[str, ...]] = ()
    _child: Child | None = None

    def start(self) -> None:
        links = [link.sfu_interface for link in self.site.links]
        argv = [sys.executable, "-m", "tests.study.forwarder", *links, *self.options]
        self._numbers = itertools.count(1)
        self._child = self.site.sfu.start(on_cpu(SFU_CPU, argv), self.folder / "standin.log")
        self._child.wait_for_line("ready:", START_TIMEOUT_S)

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        number = next(self._numbers)
        told = {
            "number": number,
            "ip": str(stream.sender.ip),
            "udp_port": stream.udp_port,
            "viewers": [
                {
                    "ip": str(viewer.ip),
                    "mac": viewer.mac,
                    "port": viewer.port,
                    "udp_port": stream.viewer_udp_port,
                }
                for viewer in viewers
            ],
        }
        assert self._child is not None
        self._child.tell(json.dumps(told))
        self._child.wait_for_line(f"subscribed {number}", START_TIMEOUT_S)

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()

    @property
    def pids(self) -> tuple[int, ...]:
        return () if self._child is None else (self._child.pid,)
