"""Two networks with an SFU between them: hosts 1 and 2 on its port 1, hosts 3 and 4 on its port 2.

h1, h2 --veth-- br1 --veth-- sfu1 | sfu2 --veth-- br2 --veth-- h3, h4
"""

import contextlib
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.controller import REPRISE
from lab.netns import HOST_INTERFACE, Namespace, Network
from lab.process import Child, run
from lab.switch import (
    GRPC_ADDRESS,
    LOSE_NOTHING,
    READY_TIMEOUT_S,
    REPLICATION_PROGRAM,
    SWITCH,
    require_build,
)

COMMAND_TIMEOUT_S = 120.0
RECEIVE_TIMEOUT_S = 120.0
STREAM_PORT = 5004
PORT_OF = {1: 1, 2: 1, 3: 2, 4: 2}


def ip_of(host: int) -> str:
    return f"10.0.{PORT_OF[host]}.{host}"


def mac_of(host: int) -> str:
    """A host's MAC address, unless a test changes it."""
    return f"02:00:00:00:0{PORT_OF[host]}:0{host}"


def own_ip(port: int) -> str:
    return f"10.0.{port}.100"


def own_mac(port: int) -> str:
    return f"02:00:00:00:0{port}:64"


class TwoNetworks(Network):
    def __init__(self) -> None:
        super().__init__()
        self.bridges = Namespace(f"{self.name}-bridge")
        self.sfu = Namespace(f"{self.name}-sfu")
        self.hosts = {n: Namespace(f"{self.name}-h{n}") for n in PORT_OF}

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        return (self.bridges, self.sfu, *self.hosts.values())

    def _make(self) -> None:
        self._make_namespaces()
        for port in (1, 2):
            self._ip(
                self.bridges,
                f"link add br{port} type bridge stp_state 0 forward_delay 0 mcast_snooping 0\n"
                f"link set br{port} up\n",
            )
            self._link(port, self.sfu, f"sfu{port}", own_mac(port))
        for number, host in self.hosts.items():
            self._link(PORT_OF[number], host, HOST_INTERFACE, mac_of(number))
            # Hosts know the SFU's addresses, as packets that wait for ARP may be sent out of order.
            port = PORT_OF[number]
            self._ip(
                host,
                f"address add {ip_of(number)}/24 dev {HOST_INTERFACE}\n"
                f"neigh replace {own_ip(port)} lladdr {own_mac(port)} dev {HOST_INTERFACE} "
                "nud permanent\n",
            )

    def _link(self, port: int, far: Namespace, interface: str, mac: str) -> None:
        near = f"to-{far.name.rpartition('-')[2]}-{port}"
        self._ip(
            self.bridges,
            f"link add {near} type veth peer name {interface} address {mac} netns {far.name}\n"
            f"link set {near} master br{port} up\n",
        )
        self._ip(far, f"link set lo up\nlink set {interface} addrgenmode none up\n")

    @staticmethod
    def _ip(namespace: Namespace, commands: str) -> None:
        run(["ip", "-n", namespace.name, "-batch", "-"], stdin=commands)


@dataclass(slots=True)
class TwoPorts:
    """A switch between the two networks that runs the replication program, and its controller."""

    network: TwoNetworks
    switch: Child
    folder: Path

    def command(self, *arguments: str) -> list[str]:
        return [str(REPRISE), "--switch", GRPC_ADDRESS, *arguments]

    def reprise(self, *arguments: str) -> str:
        return self.network.sfu.run(self.command(*arguments), timeout_s=COMMAND_TIMEOUT_S)

    def show(self) -> Any:
        return json.loads(self.reprise("show", "--json"))

    def viewers(self, group: int) -> dict[str, Any]:
        groups = {one["group"]: one for one in self.show()["groups"]}
        return {viewer["ip"]: viewer for viewer in groups[group]["viewers"]}

    def receiver(self, host: int, udp_port: int = STREAM_PORT) -> socket.socket:
        """An ordinary UDP socket of a host, whose kernel verifies every checksum."""

        def open_socket() -> socket.socket:
            receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            receiver.bind((ip_of(host), udp_port))
            receiver.settimeout(RECEIVE_TIMEOUT_S)
            return receiver

        return self.network.hosts[host].call(open_socket)

    def present(self, host: int, payloads: list[bytes], udp_port: int = STREAM_PORT) -> None:
        """Lets a host send a stream to the address that the SFU has on the host's port."""

        def open_socket() -> socket.socket:
            return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        with self.network.hosts[host].call(open_socket) as sender:
            for payload in payloads:
                sender.sendto(payload, (own_ip(PORT_OF[host]), udp_port))


@contextlib.contextmanager
def two_ports(folder: Path) -> Iterator[TwoPorts]:
    """Runs a switch without groups, on which the SFU has an address on each of two ports."""
    require_build(SWITCH, REPRISE)
    with TwoNetworks() as network:
        interfaces = ["-i", "1@sfu1", "-i", "2@sfu2", *LOSE_NOTHING]
        argv = [str(SWITCH), *interfaces, "--grpc", GRPC_ADDRESS, str(REPLICATION_PROGRAM)]
        switch = network.sfu.start(argv, folder / "switch.log")
        try:
            switch.wait_for_line("ready:", READY_TIMEOUT_S)
            running = TwoPorts(network, switch, folder)
            for port in (1, 2):
                own = ["--ip", own_ip(port), "--mac", own_mac(port)]
                running.reprise("address", "set", "--port", str(port), *own)
            yield running
        finally:
            switch.stop()
