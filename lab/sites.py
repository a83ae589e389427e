"""The site of a row (an SFU): network namespaces of hosts and of the SFU, joined by veth pairs.

    one_port        hosts  h1 ---- veth ---- p1  SFU        all participants are behind one pair
    port_per_host   hosts  h1 ---- veth ---- p1  SFU        participant n is behind pair n
                           h2 ---- veth ---- p2
                           ...

A host is no more than an address, and one namespace has the hosts' ends of all pairs: `lab.meter`
makes the hosts' packets and receives their copies before the kernel processes them. The load runs
on one processor, the SFU on another. The kernel processes a copy on the processor that sends
it: the SFU's. The SFU's namespace gets an address and a route to every host if a row needs these
(`give_address`).
"""

import contextlib
import os
from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path

from lab.netns import Namespace, Network
from lab.process import ChildError, deaf_to_signals, run

N_PARTICIPANTS_MAX = 60_000
SFU_IP = IPv4Address("10.0.0.1")
NEXT_HOP_IP = IPv4Address("10.0.0.2")
"""The next hop of the route to one_port's hosts. No such router exists: its neighbour entry has the
hosts' MAC address."""
NETWORK = "10.1.0.0/16"
_FIRST = IPv4Address("10.1.0.0")
SFU_UDP_PORT = 5004
"""The UDP port to which a stream is sent by default: RTP's port of RFC 3551, section 8."""
VIEWER_UDP_PORT = 6000
RTP_SSRC = 1000
"""The SSRC of every stream. It has this value because Janus drops packets of a remote publisher
with another SSRC (lab/rows/janus.py)."""
SFU_CPU = int(os.environ.get("REPRISE_SFU_CPU", "0"))
LOAD_CPU = int(os.environ.get("REPRISE_LOAD_CPU", "1"))
"""The processors of the SFU and of the load. For an experiment with `processors` the command line
sets these environment variables and restarts itself, so that they are set before any module is
loaded."""
MTU_BYTES = 1500


@dataclass(frozen=True, slots=True)
class Participant:
    """A host that sends or views, or both. Participants are numbered from 1."""

    number: int
    ip: IPv4Address
    mac: str
    """The Ethernet address for frames to this participant: that of the hosts' end of its link."""
    port: int
    """The number of the SFU's port behind which the participant is, from 1."""


@dataclass(frozen=True, slots=True)
class Stream:
    number: int
    sender: Participant
    udp_port: int = SFU_UDP_PORT
    """The UDP port of the SFU to which the stream goes, and the sender's source port."""
    viewer_udp_port: int = VIEWER_UDP_PORT
    """The UDP port at which viewers receive.

    A row (an SFU) that cannot change ports sends copies to `udp_port` instead.
    """


@dataclass(frozen=True, slots=True)
class Link:
    """A veth pair: the interfaces and Ethernet addresses of its two ends."""

    port: int
    host_interface: str
    host_mac: str
    sfu_interface: str
    sfu_mac: str


def viewer_ip(place: int) -> IPv4Address:
    """The address of a viewer of participant 1's stream; viewer 0 is participant 2."""
    return _FIRST + 1 + place


class Site(Network):
    """The namespaces of the hosts and of the SFU: a context manager, which removes all it made."""

    topology: str

    def __init__(self, n_participants: int) -> None:
        if not 1 <= n_participants <= N_PARTICIPANTS_MAX:
            raise ValueError(
                f"a site has 1 to {N_PARTICIPANTS_MAX} participants, not {n_participants}"
            )
        super().__init__()
        self.n_participants = n_participants
        self.mtu_bytes = MTU_BYTES
        self.real: tuple[str, str] | None = None
        """Two of the machine's interfaces in place of the veth pair: the hosts' and the SFU's."""
        self.hosts = Namespace(f"{self.name}-hosts")
        self.sfu = Namespace(f"{self.name}-sfu")
        self.links = tuple(_link(port) for port in range(1, self._n_links() + 1))

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        return (self.hosts, self.sfu)

    def participant(self, number: int) -> Participant:
        if not 1 <= number <= self.n_participants:
            raise ValueError(f"participants are 1 to {self.n_participants}, not {number}")
        link = self.link_of(number)
        return Participant(number, _FIRST + number, link.host_mac, link.port)

    def participants(self, first: int, n: int) -> list[Participant]:
        return [self.participant(number) for number in range(first, first + n)]

    def link_of(self, number: int) -> Link:
        """The link behind which a participant is."""
        return self.links[0]

    def _n_links(self) -> int:
        return 1

    @abstractmethod
    def _routes(self) -> str:
        """The ip(8) commands by which the SFU's namespace gets a route to every participant."""

    def give_address(self) -> None:
        """Gives the SFU's kernel `SFU_IP`, and routes to every host. Harmless when repeated."""
        prefix_len = 24 if len(self.links) == 1 else 32
        address = f"address replace {SFU_IP}/{prefix_len} dev {self.links[0].sfu_interface}\n"
        run(["ip", "-n", self.sfu.name, "-batch", "-"], stdin=address + self._routes())

    def _queues(self) -> str:
        """The words for ip(8) that set the queues of each end of a pair; empty for one queue."""
        return ""

    def _make(self) -> None:
        self._make_namespaces()
        if self.real is not None:
            self._take(self.real)
        else:
            self._make_pairs()
        for namespace, ends in (
            (self.hosts, [link.host_interface for link in self.links]),
            (self.sfu, [link.sfu_interface for link in self.links]),
        ):
            for end in ends:
                namespace.set_offload(end, on=False)
            up = "".join(f"link set {end} up\n" for end in ["lo", *ends])
            run(["ip", "-n", namespace.name, "-batch", "-"], stdin=up)

    def _make_pairs(self) -> None:
        more = f"{self._queues()} mtu {self.mtu_bytes}"
        pairs = "".join(
            f"link add {link.host_interface} address {link.host_mac}{more} type veth peer name "
            f"{link.sfu_interface} address {link.sfu_mac}{more} netns {self.sfu.name}\n"
            for link in self.links
        )
        run(["ip", "-n", self.hosts.name, "-batch", "-"], stdin=pairs)

    def _take(self, real: tuple[str, str]) -> None:
        """Moves the machine's interfaces into the namespaces, with their Ethernet addresses."""
        macs = [_mac_of(interface) for interface in real]
        link = self.links[0]
        self.links = (replace(link, host_mac=macs[0], sfu_mac=macs[1]),)
        ends = ((self.hosts, link.host_interface), (self.sfu, link.sfu_interface))
        for interface, (namespace, name) in zip(real, ends, strict=True):
            run(["ip", "link", "set", interface, "netns", namespace.name, "name", name])
            run(["ip", "-n", namespace.name, "link", "set", name, "mtu", str(self.mtu_bytes)])

    def remove(self) -> None:
        """Gives the machine's interfaces back under their own names; removes the namespaces."""
        with deaf_to_signals():
            self._give_back()
        super().remove()

    def _give_back(self) -> None:
        if self.real is None:
            return
        link = self.links[0]
        ends = ((self.hosts, link.host_interface), (self.sfu, link.sfu_interface))
        for interface, (namespace, name) in zip(self.real, ends, strict=True):
            if not namespace.path.exists():
                continue
            back = ["link", "set", name, "netns", str(os.getpid()), "name", interface]
            # An interface that was not moved yet is not in the namespace.
            with contextlib.suppress(ChildError):
                run(["ip", "-n", namespace.name, "link", "set", name, "down"])
                run(["ip", "-n", namespace.name, *back])
                run(["ip", "link", "set", interface, "up"])


def _mac_of(interface: str) -> str:
    try:
        return Path(f"/sys/class/net/{interface}/address").read_text().strip()
    except OSError:
        raise ChildError(f"expected an interface of this machine, found {interface!r}") from None


class OnePort(Site):
    """Everybody is behind one port of the SFU."""

    topology = "one_port"

    def _routes(self) -> str:
        link = self.links[0]
        return (
            f"neighbour replace {NEXT_HOP_IP} lladdr {link.host_mac} dev {link.sfu_interface} "
            f"nud permanent\nroute replace {NETWORK} via {NEXT_HOP_IP}\n"
        )


class ScaledSite(Site):
    """A site for several streams. Each stream has a sender and viewers of its own."""

    def __init__(self, n_streams: int, n_viewers: int) -> None:
        self.n_streams = n_streams
        self.n_viewers = n_viewers
        super().__init__(n_streams * (1 + n_viewers))

    @abstractmethod
    def stream(self, number: int) -> tuple[Stream, list[Participant]]:
        """Returns the stream with this number, counted from 0, and the stream's viewers.

        The viewers' addresses are consecutive.
        """

    def _routes(self) -> str:
        raise NotImplementedError("rows on UDP sockets have one stream's site")


class StreamPerPort(ScaledSite):
    """The sender of each stream is behind a port of its own, together with the stream's viewers."""

    topology = "stream_per_port"

    def stream(self, number: int) -> tuple[Stream, list[Participant]]:
        first = 1 + number * (1 + self.n_viewers)
        viewers = self.participants(first + 1, self.n_viewers)
        return Stream(number + 1, self.participant(first)), viewers

    def link_of(self, number: int) -> Link:
        return self.links[(number - 1) // (1 + self.n_viewers)]

    def _n_links(self) -> int:
        return self.n_streams


class Queued(ScaledSite):
    """All streams are behind one port, which has as many queues as there are streams.

    `lab.bench.scaling` sends each stream from a processor of its own.
    """

    topology = "queued"

    def stream(self, number: int) -> tuple[Stream, list[Participant]]:
        """A stream and its viewers. All senders have smaller numbers than all viewers."""
        first = 1 + self.n_streams + number * self.n_viewers
        return Stream(number + 1, self.participant(1 + number)), self.participants(
            first, self.n_viewers
        )

    def _queues(self) -> str:
        return f" numrxqueues {self.n_streams} numtxqueues {self.n_streams}"


class PortPerHost(Site):
    """Every participant is behind a port of its own."""

    topology = "port_per_host"

    def link_of(self, number: int) -> Link:
        return self.links[number - 1]

    def _n_links(self) -> int:
        return self.n_participants

    def _routes(self) -> str:
        lines = []
        for link in self.links:
            ip = _FIRST + link.port
            lines += [
                f"route replace {ip}/32 dev {link.sfu_interface} src {SFU_IP}\n",
                f"neighbour replace {ip} lladdr {link.host_mac} dev {link.sfu_interface} "
                "nud permanent\n",
            ]
        return "".join(lines)


SITES: dict[str, type[Site]] = {site.topology: site for site in (OnePort, PortPerHost)}


def _link(port: int) -> Link:
    tail = f"{port >> 8:02x}:{port & 0xFF:02x}"
    return Link(port, f"h{port}", f"02:00:00:01:{tail}", f"p{port}", f"02:00:00:02:{tail}")


def on_cpu(cpu: int, argv: list[str]) -> list[str]:
    return on_cpus([cpu], argv)


def on_cpus(cpus: Iterable[int], argv: list[str]) -> list[str]:
    return ["taskset", "--cpu-list", ",".join(map(str, cpus)), *argv]
