"""The star in which it happens, and what can be broken of it."""

from pathlib import Path

from lab.addresses import ip_of, mac_of
from lab.bench.counters import device_drops
from lab.netns import HOST_INTERFACE, SFU_INTERFACE, SFU_LINK_AT_BRIDGE, Star
from lab.process import run

SOFTNET = Path("/proc/net/softnet_stat")


class Site(Star):
    """A star whose links fail on purpose."""

    def know_sfu(self, sfu: int, host: int | None = None) -> None:
        """Hosts (or one) know the SFU's Ethernet address: no packet waits there for ARP."""
        for number, namespace in self._hosts.items():
            if host in (None, number):
                entry = [ip_of(sfu), "lladdr", mac_of(sfu), "dev", HOST_INTERFACE]
                run(["ip", "-n", namespace.name, "neigh", "replace", *entry, "nud", "permanent"])
        where = ["dev", SFU_LINK_AT_BRIDGE, "master", "static"]
        run(["bridge", "-n", self.bridge.name, "fdb", "replace", mac_of(sfu), *where])

    def set_host_link(self, host: int, *, up: bool) -> None:
        """Pulls or puts back the cable of a host."""
        self._set_link(self.bridge.name, f"to-h{host}", up=up)

    def set_sfu_link(self, *, up: bool) -> None:
        """Pulls or puts back the SFU's cable, at the switch's own end."""
        self._set_link(self.sfu.name, SFU_INTERFACE, up=up)

    def _set_link(self, namespace: str, interface: str, *, up: bool) -> None:
        run(["ip", "-n", namespace, "link", "set", interface, "up" if up else "down"])

    def remove_sfu_link(self) -> None:
        """Takes the switch's interface away."""
        run(["ip", "-n", self.sfu.name, "link", "delete", SFU_INTERFACE])

    def remake_sfu_link(self, sfu: int) -> None:
        """Makes an interface of that name again."""
        self._link(SFU_LINK_AT_BRIDGE, self.sfu, SFU_INTERFACE, mac_of(sfu))

    def drops(self) -> int:
        """Frames that the kernel lost between hosts and switch, over all devices and processors."""
        lost = device_drops(self.sfu, SFU_INTERFACE) + device_drops(self.bridge, SFU_LINK_AT_BRIDGE)
        for number, namespace in self._hosts.items():
            lost += device_drops(namespace, HOST_INTERFACE)
            lost += device_drops(self.bridge, f"to-h{number}")
        # Hexadecimal, a line a processor; the second column is what its backlog had no room for.
        return lost + sum(int(row.split()[1], 16) for row in SOFTNET.read_text().splitlines())

    def socket_overflows(self) -> int:
        """Datagrams that hosts' sockets had no room for."""
        return sum(one.udp_counters()["RcvbufErrors"] for one in self._hosts.values())
