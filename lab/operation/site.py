"""The network of an operation: one or two stars of hosts, whose links can be broken on purpose."""

import json
import time
from collections.abc import Mapping
from pathlib import Path

from lab.addresses import ip_of, mac_of
from lab.counters import device_drops
from lab.netns import HOST_INTERFACE, SFU_INTERFACE, SFU_LINK_AT_BRIDGE, Namespace, Star
from lab.process import ChildError, run

SOFTNET = Path("/proc/net/softnet_stat")
LINK_TIMEOUT_S = 120.0


class Site(Star):
    """Hosts around one bridge for each port of the switch, with links that fail on purpose.

    All hosts are in one subnet, but a bridge reaches only the hosts of its port.
    """

    def __init__(self, ports: Mapping[int, int]) -> None:
        super().__init__(len(ports))
        self._ports = ports
        self._bridges = [f"br{port - 1}" for port in self.ports]
        self._macs = {number: mac_of(number) for number in ports}
        self._sfu: dict[int, int] = {}
        """Per port, the last byte of the SFU's address that hosts know, even after its deletion."""

    # `Star` makes the bridge and links of port 1. For other ports, names of these end in the port
    # number.

    def interface(self, port: int) -> str:
        return SFU_INTERFACE if port == 1 else f"{SFU_INTERFACE}p{port}"

    def _at_bridge(self, port: int) -> str:
        return SFU_LINK_AT_BRIDGE if port == 1 else f"{SFU_LINK_AT_BRIDGE}{port}"

    @property
    def ports(self) -> list[int]:
        return sorted(set(self._ports.values()))

    def _make(self) -> None:
        super()._make()
        for port in self.ports[1:]:
            self.make_sfu_link(port)

    def _bridge_at(self, port: str) -> str:
        here = {f"to-h{host}": at for host, at in self._ports.items()}
        here |= {self._at_bridge(at): at for at in self.ports}
        return self._bridges[here[port] - 1]

    # Methods that enter addresses in hosts' neighbour tables and bridges' forwarding tables.

    def know_sfu(self, own: Mapping[int, int], host: int | None = None) -> None:
        """Enters the SFU's addresses as static neighbours of all hosts, or only of `host`.

        So no packet has to wait for ARP.
        """
        self._sfu |= own
        for number, namespace in self._hosts.items():
            sfu = self._sfu.get(self._ports[number])
            if sfu is not None and host in (None, number):
                entry = [ip_of(sfu), "lladdr", mac_of(sfu), "dev", HOST_INTERFACE]
                run(["ip", "-n", namespace.name, "neigh", "replace", *entry, "nud", "permanent"])
        for port, sfu in own.items():
            self._know(self._at_bridge(port), mac_of(sfu))

    def set_host_mac(self, host: int, mac: str) -> None:
        """Gives a host another Ethernet address, as if it had a new network card."""
        port = f"to-h{host}"
        self._know(port, mac)
        self._hosts[host].run(["ip", "link", "set", HOST_INTERFACE, "address", mac])
        old, self._macs[host] = self._macs[host], mac
        if old != mac:
            run(["bridge", "-n", self.bridge.name, "fdb", "del", old, "dev", port, "master"])

    # Faults.

    def set_host_link(self, host: int, *, up: bool) -> None:
        """Takes a host's link down or up, at the bridge."""
        port = f"to-h{host}"
        self._set_link(self.bridge, port, up=up)
        if up:
            self._await_bridge(port)

    def set_sfu_link(self, port: int, *, up: bool) -> None:
        """Takes a link of the SFU down or up, at the switch's own end."""
        self._set_link(self.sfu, self.interface(port), up=up)
        if up:
            self._await_bridge(self._at_bridge(port))

    def _set_link(self, namespace: Namespace, interface: str, *, up: bool) -> None:
        run(["ip", "-n", namespace.name, "link", "set", interface, "up" if up else "down"])

    def _await_bridge(self, port: str) -> None:
        """Waits until the bridge forwards on a port again, which happens a little after link-up."""
        deadline_s = time.monotonic() + LINK_TIMEOUT_S
        while True:
            shown = run(["bridge", "-n", self.bridge.name, "-j", "link", "show", "dev", port])
            if json.loads(shown)[0]["state"] == "forwarding":
                return
            if time.monotonic() > deadline_s:
                raise ChildError(f"the bridge does not forward by {port}: {shown}")
            time.sleep(0.002)

    def remove_sfu_link(self, port: int) -> None:
        """Deletes the interface of one of the switch's ports."""
        run(["ip", "-n", self.sfu.name, "link", "delete", self.interface(port)])

    def make_sfu_link(self, port: int) -> None:
        """Makes the interface of one of the switch's ports, the first time or again."""
        # Nothing is sent to the interface's own address. The address only has to differ from the
        # hosts' addresses.
        self._link(self._at_bridge(port), self.sfu, self.interface(port), mac_of(200 + port))
        self._await_bridge(self._at_bridge(port))

    def drops(self) -> int:
        """How many frames the kernel lost between hosts and switch, on all devices and cores."""
        lost = 0
        for port in self.ports:
            lost += device_drops(self.sfu, self.interface(port))
            lost += device_drops(self.bridge, self._at_bridge(port))
        for number, namespace in self._hosts.items():
            lost += device_drops(namespace, HOST_INTERFACE)
            lost += device_drops(self.bridge, f"to-h{number}")
        # The file has a line for each processor. The second column, in hexadecimal, is the number
        # of frames for which the processor's backlog had no room.
        return lost + sum(int(row.split()[1], 16) for row in SOFTNET.read_text().splitlines())

    def socket_overflows(self) -> int:
        """How many datagrams the hosts' sockets had no room for."""
        return sum(one.udp_counters()["RcvbufErrors"] for one in self._hosts.values())
