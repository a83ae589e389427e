"""A star that Mininet makes, with its Linux bridge (`lxbr`): hosts are Mininet's hosts.

Mininet is a package of Debian's Python, not of the lab's: `lab/mininet_network.py` runs under that
one, in the namespace that elsewhere has the bridge, which is all the system that Mininet sees.
"""

import json
import shutil
import tempfile
from pathlib import Path

from lab.addresses import SFU_MAC, SUBNET_PREFIX_LEN, ip_of, mac_of
from lab.netns import (
    HOST_INTERFACE,
    NAME_PREFIX,
    SFU_INTERFACE,
    SFU_LINK_AT_BRIDGE,
    Star,
    disable_ipv6,
)
from lab.process import REPOSITORY, Child, deaf_to_signals, run

SYSTEM_PYTHON = "/usr/bin/python3"
NETWORK = REPOSITORY / "lab" / "mininet_network.py"
READY = "ready: "
READY_TIMEOUT_S = 60.0


class MininetStar(Star):
    """The star of `lab.netns`, made by Mininet."""

    def __init__(self, n_hosts: int) -> None:
        super().__init__(n_hosts)
        self._files: Path | None = None
        self._network: Child | None = None

    def _make(self) -> None:
        run(["ip", "netns", "add", self.bridge.name])
        disable_ipv6(self.bridge)
        self._files = Path(tempfile.mkdtemp(prefix=f"{NAME_PREFIX}-mininet-"))
        nodes = [
            {
                "name": f"h{number}",
                "interface": HOST_INTERFACE,
                "port": f"to-h{number}",
                "mac": mac_of(number),
                "ip": f"{ip_of(number)}/{SUBNET_PREFIX_LEN}",
            }
            for number in self._hosts
        ]
        sfu = {
            "name": "sfu",
            "interface": SFU_INTERFACE,
            "port": SFU_LINK_AT_BRIDGE,
            "mac": SFU_MAC,
            "ip": None,
        }
        argv = [SYSTEM_PYTHON, str(NETWORK), json.dumps([*nodes, sfu])]
        network = self._network = self.bridge.start(argv, self._files / "mininet.log")
        pids = json.loads(network.wait_for_line(READY, READY_TIMEOUT_S).removeprefix(READY))
        for number, host in self._hosts.items():
            self._name(host.name, pids[f"h{number}"])
            self._attach(f"to-h{number}", mac_of(number))
        self._name(self.sfu.name, pids["sfu"])
        self._attach(SFU_LINK_AT_BRIDGE, SFU_MAC)
        for namespace in self.namespaces:
            disable_ipv6(namespace)

    def remove(self) -> None:
        """Ends Mininet, then removes what every star removes."""
        with deaf_to_signals():
            if self._network is not None:
                self._network.stop()
            super().remove()
            if self._files is not None:
                shutil.rmtree(self._files, ignore_errors=True)

    @staticmethod
    def _name(namespace: str, pid: int) -> None:
        run(["ip", "netns", "attach", namespace, str(pid)])
