"""Packets with which Open vSwitch and our switch are compared: functions without I/O.

The packets hit and miss each table; some have unusual headers.
"""

import random
import struct
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network

from lab.frames import PROTOCOL_UDP, internet_checksum, mac_bytes
from lab.pisces.network import (
    BROADCAST,
    PROTOCOL_TCP,
    ROUTERS,
    Network,
    Port,
    Route,
    Rule,
    Sender,
    Station,
    host_ip,
    station_mac,
)

NETWORK = Network(
    ports=(Port(1, (10,)), Port(2, (20,)), Port(3, (10,)), Port(4, (10, 20), is_tagged=True)),
    stations=(
        *(Station(station_mac(0, number), 10, (1, 3, 4)[number % 3]) for number in range(6)),
        *(Station(station_mac(1, number), 20, (2, 4)[number % 2]) for number in range(6)),
    ),
    senders=(
        *(Sender(station_mac(0, number), ROUTERS[0], 10) for number in range(4)),
        *(Sender(station_mac(1, number), ROUTERS[1], 20) for number in range(4)),
    ),
    routes=(
        Route(IPv4Network("10.0.0.0/16"), ROUTERS[0], station_mac(0, 0), 10),
        Route(IPv4Network("10.1.0.0/24"), ROUTERS[1], station_mac(1, 0), 20),
        Route(IPv4Network("10.1.0.2/31"), ROUTERS[1], station_mac(1, 1), 20),
        Route(IPv4Network(host_ip(0, 1)), ROUTERS[0], station_mac(0, 1), 10),
        Route(IPv4Network(host_ip(1, 2)), ROUTERS[1], station_mac(1, 2), 20),
        # A station that is in no table.
        Route(IPv4Network("10.2.0.0/16"), ROUTERS[0], station_mac(7, 0), 10),
    ),
    rules=(
        Rule(False, IPv4Network(host_ip(0, 3)), IPv4Network("10.1.0.0/24")),
        Rule(True, protocol=PROTOCOL_TCP, destination_port=443),
        Rule(False, protocol=PROTOCOL_UDP, source_port=53),
        Rule(False, IPv4Network("10.0.0.0/31"), protocol=PROTOCOL_UDP, destination_port=53),
        Rule(False, protocol=1),
        Rule(True, IPv4Network("10.0.0.0/8"), IPv4Network("10.0.0.0/8")),
    ),
    flooded_vlans=(10, 20),
)
"""A network so small that random packets hit every table.

Port 4 is a trunk: it has several VLANs.
"""

SOURCE_IP, DESTINATION_IP = host_ip(0, 0), host_ip(1, 0)


@dataclass(frozen=True, slots=True)
class Packet:
    """The fields of a frame that switches look at.

    With the default values, a frame is routed and permitted.
    """

    port: int
    source: str
    destination: str
    tag: int | None = None
    """The 16 bits after a VLAN tag's type: priority, drop eligible, VLAN id."""
    ether_type: int = 0x0800
    source_ip: IPv4Address = SOURCE_IP
    destination_ip: IPv4Address = DESTINATION_IP
    protocol: int = PROTOCOL_UDP
    ports: tuple[int, int] = (7000, 5004)
    ttl: int = 64
    tos: int = 0
    fragment: int = 0
    """IPv4's fragment flags and offset."""
    options: bytes = b""
    checksum_error: int = 0
    length_error: int = 0

    def frame(self, number: int) -> bytes:
        """Returns the frame as bytes, which end with `number`."""
        tag = b"" if self.tag is None else struct.pack("!HH", 0x8100, self.tag)
        macs = mac_bytes(self.destination) + mac_bytes(self.source)
        body = self._ipv4(number) if self.ether_type == 0x0800 else bytes(46) + _number(number)
        return macs + tag + struct.pack("!H", self.ether_type) + body

    def _ipv4(self, number: int) -> bytes:
        segment = struct.pack("!HH", *self.ports) + bytes(range(16)) + bytes(10) + _number(number)
        header_len = 20 + len(self.options)
        first = (0x40 | header_len // 4, self.tos, header_len + len(segment) + self.length_error)
        addresses = self.source_ip.packed + self.destination_ip.packed

        def header(checksum: int) -> bytes:
            last = (self.fragment, self.ttl, self.protocol, checksum)
            return (
                struct.pack("!BBHHHBBH", *first, number & 0xFFFF, *last) + addresses + self.options
            )

        return header(internet_checksum(header(0)) ^ self.checksum_error) + segment


def _number(number: int) -> bytes:
    return struct.pack("!I", number)


def number_of(frame: bytes) -> int:
    return int(struct.unpack("!I", frame[-4:])[0])


def by_chance(n: int, seed: int) -> list[Packet]:
    chance = random.Random(seed)
    return [_one(chance) for _ in range(n)]


def _one(chance: random.Random) -> Packet:
    side = chance.randrange(2)
    port = chance.choice((1, 1, 3, 4) if side == 0 else (2, 2, 4, 1))
    usual = (10, 20)[side] if port == 4 else None
    tag = chance.choice((usual, usual, usual, usual, usual, 10, 20, 30, 0))
    if tag is not None:
        tag |= chance.choice((0, 0, 0x2000, 0xE000))
    source = chance.choice((station_mac(side, chance.randrange(6)), station_mac(side, 0)))
    known = station_mac(side, chance.randrange(6))
    return Packet(
        port=port,
        tag=tag,
        source=chance.choice((source, source, source, source, station_mac(9, 9))),
        destination=chance.choice(
            (*(ROUTERS[side],) * 5, known, known, BROADCAST, station_mac(8, 8), "01:00:5e:00:00:fb")
        ),
        ether_type=chance.choice((*(0x0800,) * 9, 0x0806, 0x86DD, 0x88B5)),
        source_ip=host_ip(side, chance.randrange(5)),
        destination_ip=chance.choice(
            (
                *(host_ip(1 - side, chance.randrange(6)) for _ in range(5)),
                IPv4Address("10.1.0.200"),
                IPv4Address("10.2.3.4"),
                IPv4Address("192.0.2.1"),
            )
        ),
        protocol=chance.choice((PROTOCOL_UDP, PROTOCOL_UDP, PROTOCOL_TCP, PROTOCOL_TCP, 1, 47)),
        ports=(chance.choice((53, 7000, 9)), chance.choice((53, 443, 5004))),
        ttl=chance.choice((0, 1, 2, 64, 64, 64, 255)),
        tos=chance.choice((0, 0, 0xB8, 0x03)),
        fragment=chance.choice((0, 0x4000, 0x4000, 0x2000, 0x2003, 0x0010)),
    )


def marker(port: Port) -> Packet:
    """Makes a broadcast that enters by `port`, in the port's VLAN. Every program floods it."""
    tag = port.vlans[0] if port.is_tagged else None
    source = station_mac((10, 20).index(port.vlans[0]), 5)
    return Packet(port.number, source, BROADCAST, tag=tag, ether_type=0x88B5)
