"""Two network namespaces and one veth pair between them: the host's end and the forwarder's.

    load and sink  h0 ---- veth ---- s0  forwarder

Every packet goes in by the pair and every copy comes out of it. The load runs on one processor, the
forwarder on another; the kernel's work for a copy is done where it is sent, so by the forwarder's.
Viewers are addresses only: all of them are behind the host's end, whose BPF program counts what
comes for each and drops it.
"""

from ipaddress import IPv4Address

from lab.netns import Namespace, Network
from lab.process import run

HOST_INTERFACE = "h0"
FORWARDER_INTERFACE = "s0"
HOST_MAC = "02:00:00:00:00:02"
FORWARDER_MAC = "02:00:00:00:00:01"
HOST_IP = IPv4Address("10.0.0.2")
FORWARDER_IP = IPv4Address("10.0.0.1")
FIRST_VIEWER_IP = IPv4Address("10.1.0.1")
VIEWERS_NETWORK = "10.1.0.0/16"
HOST_UDP_PORT = 7000
SFU_UDP_PORT = 5004
AUDIO_UDP_PORT = 5006
"""Where the second stream goes, where there is one."""
VIEWER_UDP_PORT = 6000
FORWARDER_CPU = 0
LOAD_CPU = 1


def viewer_ips(n_viewers: int) -> list[IPv4Address]:
    """The addresses of the viewers, in the order of their copies."""
    return [FIRST_VIEWER_IP + number for number in range(n_viewers)]


def on_cpu(cpu: int, argv: list[str]) -> list[str]:
    """`argv` on one processor."""
    return ["taskset", "--cpu-list", str(cpu), *argv]


class Pair(Network):
    """A context manager; `with_address` gives the forwarder's end an address, for UDP sockets."""

    def __init__(self, *, with_address: bool = False) -> None:
        super().__init__()
        self.with_address = with_address
        self.host = Namespace(f"{self.name}-host")
        self.forwarder = Namespace(f"{self.name}-forwarder")

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        """Both."""
        return (self.host, self.forwarder)

    def _make(self) -> None:
        self._make_namespaces()
        run(
            ["ip", "-n", self.host.name, "-batch", "-"],
            stdin=f"link add {HOST_INTERFACE} address {HOST_MAC} type veth peer name "
            f"{FORWARDER_INTERFACE} address {FORWARDER_MAC} netns {self.forwarder.name}\n",
        )
        ends = ((self.host, HOST_INTERFACE), (self.forwarder, FORWARDER_INTERFACE))
        for namespace, interface in ends:
            namespace.set_offload(interface, on=False)
            run(["ip", "-n", namespace.name, "link", "set", interface, "up"])
        if self.with_address:
            self._set_address()

    def _set_address(self) -> None:
        commands = (
            f"address add {FORWARDER_IP}/24 dev {FORWARDER_INTERFACE}\n"
            f"neighbour add {HOST_IP} lladdr {HOST_MAC} dev {FORWARDER_INTERFACE} nud permanent\n"
            f"route add {VIEWERS_NETWORK} via {HOST_IP}\n"
        )
        run(["ip", "-n", self.forwarder.name, "-batch", "-"], stdin=commands)
