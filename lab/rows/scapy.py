"""The user-space SFUs of two sources of this project: `lab/baselines/scapy_*.py`.

The sources are E. Papageorgiou's thesis (2026) and P. Tsikrikas' and G. Xylomenos' multicast paper.
"""

import json
import sys
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from lab.baselines import READY
from lab.colours import PINK
from lab.rows.row import ProcessRow
from lab.rows.shared_groups import SharedGroups, Subscription
from lab.sites import SFU_IP, Participant, Stream


class ScapyRow(ProcessRow):
    """One process, controlled through its standard input. Copies keep the stream's ports."""

    module: ClassVar[str]

    def start(self) -> None:
        argv = [sys.executable, "-m", self.module, "--ip", str(SFU_IP), *self._arguments()]
        self.launch(argv, "scapy.log", READY)

    @abstractmethod
    def _arguments(self) -> list[str]: ...


class Userspace(ScapyRow):
    """The thesis' SFU: one interface, groups by sender and UDP port."""

    name = "userspace"
    label = "Scapy"
    look = (PINK, "<")
    rank = 5
    source = "thesis"
    module = "lab.baselines.scapy_sfu"

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        told = {
            "sender": str(stream.sender.ip),
            "udp_port": stream.udp_port,
            "viewers": [(str(viewer.ip), viewer.mac) for viewer in viewers],
        }
        self.tell(json.dumps(told))

    def _arguments(self) -> list[str]:
        link = self.site.links[0]
        return ["--mac", link.sfu_mac, link.sfu_interface]


class UserspacePortPerHost(ScapyRow):
    """The multicast paper's SFU: an interface for each host, a group for each UDP port.

    All senders to a UDP port share its group (`lab.rows.shared_groups`). `ValueError` is raised if
    two streams to one port have different viewers, apart from their senders.
    """

    name = "userspace_port_per_host"
    label = "Scapy, port per host"
    look = (PINK, ">")
    rank = 6
    source = "multicast README"
    topologies = ("port_per_host",)
    module = "lab.baselines.scapy_server"

    def start(self) -> None:
        self._groups = SharedGroups()
        super().start()

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        self.subscribe_all([(stream, viewers)])

    def subscribe_all(self, subscriptions: Sequence[Subscription]) -> None:
        for udp_port, group in self._groups.subscribe(subscriptions).items():
            receivers = [
                (str(one.ip), one.mac, self.site.link_of(one.number).sfu_interface) for one in group
            ]
            self.tell(json.dumps({"udp_port": udp_port, "receivers": receivers}))

    def _arguments(self) -> list[str]:
        return [f"{link.sfu_interface}={link.sfu_mac}" for link in self.site.links]
