"""Ordered multicast groups whose members run in the test's process, each in a host's namespace."""

import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from aom import UDP_PORT, DropNotification, Event, Member, Message, request

from lab.netns import HOST_INTERFACE, Namespace
from tests.e2e.ordered import GROUP_IP, MEMBER_UDP_PORT, Ordered, ip_of

PATIENCE_S = 120.0
ETH_P_IP = 0x0800

Seen = TypeVar("Seen")


def wait_until(look: Callable[[], Seen], expected: Seen) -> None:
    """Waits until `look` returns the expected value; fails with the difference if it does not."""
    until_s = time.monotonic() + PATIENCE_S
    while look() != expected and time.monotonic() < until_s:
        time.sleep(0.005)
    seen = look()
    assert seen == expected, f"expected {expected}, found {seen}"


@dataclass
class Group:
    """A group, and its members in the order in which they were added to it."""

    whole: Ordered
    name: str = "counter"
    address: str = GROUP_IP
    signed: bool = False
    members: list[Member] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)

    def join(self, host: int, udp_port: int = MEMBER_UDP_PORT) -> None:
        """Adds a member, so that a new epoch begins, and lets the member join."""
        file = self.whole.add_member(host, self.name, udp_port)
        join = self.namespace(host).call
        self.members.append(join(lambda: Member.join(file, PATIENCE_S)))
        self.places.append((host, udp_port))

    def join_all(self, hosts: Sequence[int]) -> None:
        """Adds a member on each host. All join at once: a Byzantine group waits for all members."""
        files = [self.whole.add_member(host, self.name) for host in hosts]

        def join(host: int, file: Path) -> Member:
            return self.namespace(host).call(lambda: Member.join(file, PATIENCE_S))

        with ThreadPoolExecutor(len(hosts)) as pool:
            self.members.extend(pool.map(join, hosts, files))
        self.places.extend((host, MEMBER_UDP_PORT) for host in hosts)

    def leave(self) -> None:
        """Lets all members leave."""
        for member in self.members:
            member.leave()

    def namespace(self, host: int) -> Namespace:
        return self.whole.hosts.hosts[host]

    def told(self, n_events: int) -> list[list[Event]]:
        return [next_events(member, n_events) for member in self.members]

    def advance(self) -> None:
        """Begins a new epoch, and waits until all members have the new epoch."""
        self.wait_until_all_receive()
        self.whole.aom("epoch", "advance", self.name)
        self.wait_until_all_receive()

    def wait_until_all_receive(self) -> None:
        """Waits until the epoch is active and all members are connected and have this epoch."""
        wait_until(lambda: self.whole.n_receiving(self.name), len(self.members))


def next_events(member: Member, n_events: int) -> list[Event]:
    """Returns the next events; fails if they do not come.

    A notification of several dropped numbers is split into one event for each number.
    """
    events: list[Event] = []
    while len(events) < n_events:
        event = member.next(PATIENCE_S)
        assert event is not None, f"{len(events)} of {n_events} events came: {events[-3:]}"
        if isinstance(event, DropNotification):
            numbers = range(event.first, event.last + 1)
            events.extend(DropNotification(event.epoch, it, it) for it in numbers)
        else:
            events.append(event)
    return events


def number_of(event: Event) -> int:
    """The sequence number of an event that `next_events` returned."""
    return event.first if isinstance(event, DropNotification) else event.sequence


def messages(events: Sequence[Event]) -> list[Message]:
    found = [event for event in events if isinstance(event, Message)]
    assert len(found) == len(events), events
    return found


def brief(events: Sequence[Event]) -> list[tuple[int, str]]:
    """The number and text of each message, or the number and type of any other event."""
    return [
        (
            number_of(event),
            event.payload.decode() if isinstance(event, Message) else type(event).__name__,
        )
        for event in events
    ]


def altered(datagram: bytes, at: int) -> bytes:
    """Returns a copy of a datagram in which the lowest bit of byte `at` is changed."""
    return datagram[:at] + bytes([datagram[at] ^ 1]) + datagram[at + 1 :]


class Client:
    def __init__(self, whole: Ordered, host: int) -> None:
        namespace = whole.hosts.hosts[host]
        self._socket = namespace.call(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        whole.stack.callback(self._socket.close)

    def ask(self, group: Group, *texts: str) -> None:
        for text in texts:
            datagram = request(text.encode(), signed=group.signed)
            self._socket.sendto(datagram, (group.address, UDP_PORT))

    def send_to(self, address: tuple[str, int], datagram: bytes) -> None:
        """Sends a datagram to any address."""
        self._socket.sendto(datagram, address)

    def send(self, place: tuple[int, int], *datagrams: bytes) -> None:
        """Sends datagrams straight to a member's socket, as an attacker could."""
        host, udp_port = place
        for datagram in datagrams:
            self._socket.sendto(datagram, (ip_of(host), udp_port))


class Tap:
    """Captures the datagrams to a member, also those that its host's kernel then drops."""

    def __init__(self, group: Group, member: int = 0) -> None:
        host, self._udp_port = group.places[member]
        self._socket = group.namespace(host).call(lambda: packet_socket(PATIENCE_S))
        group.whole.stack.callback(self._socket.close)

    def take(self, n_datagrams: int) -> list[bytes]:
        """Returns the next datagrams; fails if they do not come."""
        taken: list[bytes] = []
        while len(taken) < n_datagrams:
            udp_port, datagram = udp_datagram(self._socket.recv(1 << 16))
            if udp_port == self._udp_port:
                taken.append(datagram)
        return taken


def packet_socket(timeout_s: float) -> socket.socket:
    """A socket that gets a host's IPv4 packets, also those that the host's kernel then drops."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_IP))
    tap.bind((HOST_INTERFACE, ETH_P_IP))
    tap.settimeout(timeout_s)
    return tap


def udp_datagram(packet: bytes) -> tuple[int, bytes]:
    """The destination port and payload of UDP in an IPv4 packet; port 0 if it is not UDP."""
    udp_port = int.from_bytes(packet[22:24], "big") if packet[9] == socket.IPPROTO_UDP else 0
    return udp_port, packet[28:]
