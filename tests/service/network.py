"""Network namespaces for a service, its switch and hosts, with a router and an address translator.

    lan: a bridge with 10.0.1.0/24 and fd00:1::/64
      |- switch    no address; the switch answers for 10.0.1.100 and fd00:1::100
      |- service   10.0.1.2, fd00:1::2
      |- router    10.0.1.254 ---- 10.0.2.0/24
      |- nat       10.0.1.253 ---- 10.0.3.0/24, which the LAN sees as 10.0.1.253
      `- hosts     10.0.1.10 and on, or fd00:1::10 and on, or both

IPv6 is off on a host that has no IPv6 address.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.netns import Namespace, Network, disable_ipv6
from lab.process import run

SWITCH_IPV4, SWITCH_IPV6 = "10.0.1.100", "fd00:1::100"
SWITCH_MAC = "02:00:00:00:01:64"
SERVICE_IPV4, SERVICE_IPV6 = "10.0.1.2", "fd00:1::2"
INTERFACE = "eth0"
INNER = "eth1"
"""A router's interface towards the hosts behind it."""
_BEHIND = {"router": ("10.0.1.254", "10.0.2"), "nat": ("10.0.1.253", "10.0.3")}
"""For `router` and `nat`: its address on the LAN, and the network behind it."""
_MASQUERADE = f"""
table ip translator {{
    chain after {{
        type nat hook postrouting priority srcnat
        oifname "{INTERFACE}" masquerade
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a host is: on the LAN, or behind `router` or `nat`."""

    name: str
    behind: str = ""
    ipv4: bool = True
    ipv6: bool = False


class HostsAndSwitch(Network):
    """The namespaces of the picture above, with a host for each place."""

    def __init__(self, places: Sequence[Place]) -> None:
        super().__init__()
        self.places = {place.name: place for place in places}
        names = ["lan", "switch", "service", *_BEHIND, *self.places]
        self._all = {name: Namespace(f"{self.name}-{name}") for name in names}

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        return tuple(self._all.values())

    def __getitem__(self, name: str) -> Namespace:
        return self._all[name]

    def address(self, name: str) -> str:
        """The IPv4 address with which a host begins."""
        behind = self.places[name].behind
        network = _BEHIND[behind][1] if behind else "10.0.1"
        return f"{network}.{self._number(name)}"

    def _number(self, name: str) -> int:
        return 10 + list(self.places).index(name)

    def _make(self) -> None:
        for namespace in self.namespaces:
            run(["ip", "netns", "add", namespace.name])
            self._ip(namespace, "link set lo up")
        for name in ("lan", "switch", *_BEHIND):
            disable_ipv6(self[name])
        bridge = "link add br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0"
        self._ip(self["lan"], bridge, "link set br0 up")
        self._plug("switch")
        self._plug("service", f"{SERVICE_IPV4}/24", f"{SERVICE_IPV6}/64")
        for name, (address, network) in _BEHIND.items():
            self._plug(name, f"{address}/24")
            self[name].run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"])
            self._make_bridge_behind(name, f"{network}.1/24")
        translator = self["nat"].command(["nft", "-f", "-"])
        run(translator, stdin=_MASQUERADE)
        # The service answers hosts behind the router by way of the router; the switch needs no
        # route.
        self._ip(self["service"], f"route add 10.0.2.0/24 via {_BEHIND['router'][0]}")
        for place in self.places.values():
            self._make_host(place)

    def _make_bridge_behind(self, name: str, address: str) -> None:
        bridge = f"link add {INNER} type bridge stp_state 0 forward_delay 0"
        self._ip(self[name], bridge, f"link set {INNER} up", f"address add {address} dev {INNER}")

    def _make_host(self, place: Place) -> None:
        if not place.ipv6:
            disable_ipv6(self[place.name])
        if place.behind:
            self._plug(place.name, f"{self.address(place.name)}/24", at=place.behind, bridge=INNER)
            gateway = f"{_BEHIND[place.behind][1]}.1"
            self._ip(self[place.name], f"route add default via {gateway}")
            return
        ipv4 = [f"{self.address(place.name)}/24"] if place.ipv4 else []
        ipv6 = [f"fd00:1::{self._number(place.name)}/64"] if place.ipv6 else []
        self._plug(place.name, *ipv4, *ipv6)

    def _plug(self, name: str, *addresses: str, at: str = "lan", bridge: str = "br0") -> None:
        """Connects a namespace's interface to a bridge, and gives it addresses."""
        port = f"to-{name}"
        peer = f"peer name {INTERFACE} netns {self[name].name}"
        self._ip(
            self[at],
            f"link add {port} type veth {peer}",
            f"link set {port} master {bridge} up",
        )
        # Without "nodad" an IPv6 address could not be used for a second.
        given = [
            f"address add {address} dev {INTERFACE}{' nodad' if ':' in address else ''}"
            for address in addresses
        ]
        self._ip(self[name], f"link set {INTERFACE} up", *given)

    def _ip(self, namespace: Namespace, *lines: str) -> None:
        run(["ip", "-n", namespace.name, "-batch", "-"], stdin="\n".join(lines) + "\n")

    def change_address(self, name: str, new: str) -> None:
        """Replaces the IPv4 address of a host, or of `nat`, by a new one."""
        old = _BEHIND[name][0] if name in _BEHIND else self.address(name)
        self._ip(
            self[name],
            f"address del {old}/24 dev {INTERFACE}",
            f"address add {new}/24 dev {INTERFACE}",
        )
