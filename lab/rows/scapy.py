"""The sources' SFUs in user space, Python and Scapy: `lab/baselines/scapy_*.py`."""

import json
import sys
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from lab.baselines import READY
from lab.process import Child, ChildError
from lab.rows.row import Row
from lab.rows.shared_groups import SharedGroups, Subscription
from lab.sites import SFU_CPU, SFU_IP, Participant, Stream, on_cpu

TIMEOUT_S = 120.0


class ScapyRow(Row):
    """One process, controlled by its standard input. Copies keep the stream's ports."""

    module: ClassVar[str]
    _process: Child | None = None

    def start(self) -> None:
        """Starts the process; groups come with the streams."""
        argv = [sys.executable, "-m", self.module, "--ip", str(SFU_IP), *self._arguments()]
        self._process = self.site.sfu.start(on_cpu(SFU_CPU, argv), self.folder / "scapy.log")
        self._process.wait_for_line(READY, TIMEOUT_S)
        self._n_told = 0

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.stop()

    @property
    def pids(self) -> tuple[int, ...]:
        """The one."""
        return () if self._process is None else (self._process.pid,)

    @abstractmethod
    def _arguments(self) -> list[str]: ...

    def _tell(self, change: dict[str, object]) -> None:
        if self._process is None:
            raise ChildError(f"{self.name} was not started")
        self._process.tell(json.dumps(change))
        self._n_told += 1
        self._process.wait_for_line(f"done {self._n_told}", TIMEOUT_S)


class Userspace(ScapyRow):
    """The thesis': one interface, groups by sender and UDP port."""

    name = "userspace"
    label = "Scapy"
    source = "thesis"
    module = "lab.baselines.scapy_sfu"

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        """Tells the stream's viewers."""
        self._tell(
            {
                "sender": str(stream.sender.ip),
                "udp_port": stream.udp_port,
                "viewers": [(str(viewer.ip), viewer.mac) for viewer in viewers],
            }
        )

    def _arguments(self) -> list[str]:
        link = self.site.links[0]
        return ["--mac", link.sfu_mac, link.sfu_interface]


class UserspacePortPerHost(ScapyRow):
    """The multicast paper's: an interface for each host, a group for each UDP port.

    As on the multicast rows a group is one for all senders (`lab.rows.shared_groups`): `ValueError`
    for viewers that differ by more than the senders themselves.
    """

    name = "userspace_port_per_host"
    label = "Scapy, port per host"
    source = "multicast README"
    topologies = ("port_per_host",)
    module = "lab.baselines.scapy_server"

    def start(self) -> None:
        """Starts the process; groups come with the streams."""
        self._groups = SharedGroups()
        super().start()

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        """Tells the group of the stream's UDP port."""
        self.subscribe_all([(stream, viewers)])

    def subscribe_all(self, subscriptions: Sequence[Subscription]) -> None:
        """Tells the groups, one after the other."""
        for udp_port, group in self._groups.subscribe(subscriptions).items():
            receivers = [
                (str(one.ip), one.mac, self.site.link_of(one.number).sfu_interface) for one in group
            ]
            self._tell({"udp_port": udp_port, "receivers": receivers})

    def _arguments(self) -> list[str]:
        return [f"{link.sfu_interface}={link.sfu_mac}" for link in self.site.links]
