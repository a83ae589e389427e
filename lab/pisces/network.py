"""The network that both switches forward for: ports, stations, routes, rules. No I/O.

`published` makes a network with the sizes of PISCES' measurement (section 5 of the paper): 64
entries for VLANs, 4,000 stations, 64 of which send through the router, 2,000 routes, and 1,000
rules of which only the last matches. In the paper, two routes have the same network and differ in
the VLAN, but the table's key has no VLAN. Here, each host has a route of its own instead. The paper
does not say what the other 999 rules are. Here, each of them denies one service between two
networks, in one of eight combinations of prefix lengths and ports, as in most access lists.
"""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from lab.frames import PROTOCOL_UDP

PROGRAMS = ("l2", "l2l3", "l2l3_acl")
PROTOCOL_TCP = 6
BROADCAST = "ff:ff:ff:ff:ff:ff"
VLANS = (10, 20)
ROUTERS = ("02:00:09:00:00:01", "02:00:09:00:00:02")
"""The router's address in each VLAN."""
ANYWHERE = IPv4Network("0.0.0.0/0")


@dataclass(frozen=True, slots=True)
class Port:
    """A port of the switch: untagged in one VLAN, or tagged in several."""

    number: int
    vlans: tuple[int, ...]
    is_tagged: bool = False


@dataclass(frozen=True, slots=True)
class Station:
    mac: str
    vlan: int
    port: int


@dataclass(frozen=True, slots=True)
class Sender:
    mac: str
    router: str
    vlan: int


@dataclass(frozen=True, slots=True)
class Route:
    """The addresses and the VLAN with which packets for a prefix leave."""

    prefix: IPv4Network
    router: str
    next_hop: str
    vlan: int


@dataclass(frozen=True, slots=True)
class Rule:
    """A line of the access list; `None` matches anything."""

    permits: bool
    source: IPv4Network = ANYWHERE
    destination: IPv4Network = ANYWHERE
    protocol: int | None = None
    source_port: int | None = None
    destination_port: int | None = None


@dataclass(frozen=True, slots=True)
class Network:
    """The whole network, of which the program L2 uses only ports and stations.

    The first rule that matches decides; without a match the packet is dropped.
    """

    ports: tuple[Port, ...]
    stations: tuple[Station, ...]
    senders: tuple[Sender, ...]
    routes: tuple[Route, ...]
    rules: tuple[Rule, ...]
    flooded_vlans: tuple[int, ...] = ()
    """VLANs whose broadcasts go to all their ports."""

    def ports_of(self, vlan: int) -> tuple[Port, ...]:
        return tuple(port for port in self.ports if vlan in port.vlans)


N_STATIONS, N_SENDERS, N_ROUTES, N_RULES = 4_000, 64, 2_000, 1_000
_ELSEWHERE = IPv4Address("172.16.0.0")
"""The first of a range of addresses that no flow has."""
_NETWORKS = (IPv4Address("10.0.0.0"), IPv4Address("10.1.0.0"))
_PREFIX_LENGTHS = ((32, 32), (32, 24), (24, 32), (24, 24), (24, 24), (32, 32), (28, 24), (24, 28))
_WITH_SOURCE_PORT = (4, 5)
N_SERVICES = 1_000


def published() -> Network:
    """Two networks with routes to each other. Each is a VLAN at an untagged port of its own."""
    sides = (0, 1)
    return Network(
        ports=tuple(Port(side + 1, (VLANS[side],)) for side in sides),
        stations=tuple(
            Station(station_mac(side, number), VLANS[side], side + 1)
            for side in sides
            for number in range(N_STATIONS // 2)
        ),
        senders=tuple(
            Sender(station_mac(side, number), ROUTERS[side], VLANS[side])
            for side in sides
            for number in range(N_SENDERS // 2)
        ),
        routes=tuple(
            Route(
                IPv4Network(host_ip(side, number)),
                ROUTERS[side],
                station_mac(side, number),
                VLANS[side],
            )
            for side in sides
            for number in range(N_ROUTES // 2)
        ),
        rules=(*(_denied(number) for number in range(N_RULES - 1)), Rule(permits=True)),
    )


def station_mac(side: int, number: int) -> str:
    """The address of the station with this number in network 0 or 1."""
    return f"02:00:{side:02x}:00:{number >> 8:02x}:{number & 0xFF:02x}"


def host_ip(side: int, number: int) -> IPv4Address:
    return _NETWORKS[side] + 1 + number


def _denied(number: int) -> Rule:
    source, destination = _PREFIX_LENGTHS[number % len(_PREFIX_LENGTHS)]
    service = 1 + number % N_SERVICES
    return Rule(
        permits=False,
        source=IPv4Network((_ELSEWHERE + (number << 8), source)),
        destination=IPv4Network(
            (_NETWORKS[number % 2] + ((number % 4) << 8), destination), strict=False
        ),
        protocol=PROTOCOL_UDP if number % 3 == 0 else PROTOCOL_TCP,
        source_port=service if number % 8 in _WITH_SOURCE_PORT else None,
        destination_port=service,
    )
