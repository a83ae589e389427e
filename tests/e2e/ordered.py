"""A switch as sequencer, its configuration service, and hosts on the switch's ports.

Switch and service share a namespace; each host has one of its own.

    h1 ... hN --veth-- ports 1 to N | reprise-switch | port 100 --veth-- the service

Members reach the service through the switch, like any other host.
"""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.controller import REPRISE
from lab.netns import HOST_INTERFACE, Namespace, Network
from lab.process import REPOSITORY, Child, run
from lab.switch import GRPC_ADDRESS, LOSE_NOTHING, READY_TIMEOUT_S, SWITCH, require_build

AOM_HM = REPOSITORY / "p4" / "aom_hm.p4"
AOM_PK = REPOSITORY / "p4" / "aom_pk.p4"
SIGNER = SWITCH.with_name("reprise-signer")
PYTHON_PACKAGE = REPOSITORY / "python" / "aom"
MEMBER = Path(__file__).with_name("aom_member.py")
SENDER = Path(__file__).with_name("aom_sender.py")
SERVICE_PORT = 100
SERVICE_IP = "10.0.0.254"
SERVICE = f"{SERVICE_IP}:7443"
GROUP_IP = "239.1.0.1"
MEMBER_UDP_PORT = 60005


def ip_of(host: int) -> str:
    return f"10.0.0.{host}"


def mac_of(host: int) -> str:
    return f"02:00:00:00:01:{host:02x}"


class Hosts(Network):
    def __init__(self, n_hosts: int) -> None:
        super().__init__()
        self.switch = Namespace(f"{self.name}-switch")
        self.hosts = {n: Namespace(f"{self.name}-h{n}") for n in range(1, n_hosts + 1)}

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        return (self.switch, *self.hosts.values())

    def _make(self) -> None:
        self._make_namespaces()
        for number, host in self.hosts.items():
            run(
                ["ip", "-n", self.switch.name, "-batch", "-"],
                stdin=f"link add port{number} type veth peer name {HOST_INTERFACE} "
                f"address {mac_of(number)} netns {host.name}\n"
                f"link set port{number} up\n",
            )
            run(
                ["ip", "-n", host.name, "-batch", "-"],
                stdin=f"link set lo up\nlink set {HOST_INTERFACE} addrgenmode none up\n"
                f"address add {ip_of(number)}/24 dev {HOST_INTERFACE}\n"
                f"route add 239.0.0.0/8 dev {HOST_INTERFACE}\n",
            )
            # The kernel drops packets from addresses to which it has no route (RFC 3704).
            # `Ordered.lose` uses this to lose packets.
            host.run(["sh", "-c", "echo 1 > /proc/sys/net/ipv4/conf/all/rp_filter"])
        run(
            ["ip", "-n", self.switch.name, "-batch", "-"],
            stdin="link set lo up\n"
            f"link add port{SERVICE_PORT} type veth peer name service\n"
            f"link set port{SERVICE_PORT} up\nlink set service up\n"
            f"address add {SERVICE_IP}/24 dev service\n",
        )


@dataclass
class Ordered:
    hosts: Hosts
    logs: Path
    program: Path
    stack: ExitStack
    switch_options: Sequence[str] = ()
    processes: dict[str, Child] = field(default_factory=dict)
    n_started: int = 0

    @property
    def state(self) -> Path:
        return self.logs / "state"

    def start_switch(self) -> None:
        ports = [*self.hosts.hosts, SERVICE_PORT]
        interfaces = [word for port in ports for word in ("-i", f"{port}@port{port}")]
        options = ["--grpc", GRPC_ADDRESS, *LOSE_NOTHING, *self.switch_options]
        switch = self.start("switch", [str(SWITCH), *interfaces, *options])
        switch.wait_for_line("ready:", READY_TIMEOUT_S)

    def start_service(self) -> None:
        self.start("service", self.service()).wait_for_line("ready:", READY_TIMEOUT_S)

    def service(self, state: Path | None = None, listen: str = SERVICE) -> list[str]:
        """The command that starts the service.

        With another `state` folder and `listen` address, the command starts a second service.
        """
        ports = [str(port) for port in [*self.hosts.hosts, SERVICE_PORT]]
        argv = [str(REPRISE), "aom", "serve", "--program", str(self.program)]
        argv += ["--state", str(state or self.state), "--listen", listen, "--switch", GRPC_ADDRESS]
        return argv + [word for port in ports for word in ("--port", port)]

    def kill(self, name: str) -> None:
        self.processes.pop(name).kill()

    def aom(self, *words: str) -> dict[str, Any]:
        """Runs `reprise aom` with these words; returns its JSON document."""
        argv = [str(REPRISE), "aom", *words[:1], "--state", str(self.state), *words[1:], "--json"]
        answer = self.hosts.switch.run(argv)
        document: dict[str, Any] = json.loads(answer)
        return document

    def group(self, name: str = "counter") -> dict[str, Any]:
        (group,) = self.aom("group", "show", name)["groups"]
        return dict(group)

    def n_receiving(self, name: str = "counter") -> int:
        """How many connected members receive in the group's epoch; 0 if the group is not active."""
        group = self.group(name)
        receiving = [
            member["receiver"] is not None and member["installed"] == group["epoch"]
            for member in group["members"]
            if member["is_connected"]
        ]
        return sum(receiving) if group["state"]["state"] == "active" else 0

    def wait_for(self, state: str, *, epoch: int = 1, timeout_s: float = 120.0) -> dict[str, Any]:
        """Waits until the group is in that state, in that epoch or a later one."""
        until = time.monotonic() + timeout_s
        while True:
            group = self.group()
            if group["state"]["state"] == state and group["epoch"] >= epoch:
                return group
            assert time.monotonic() < until, group
            time.sleep(0.02)

    def add_member(
        self, host: int, group: str = "counter", udp_port: int = MEMBER_UDP_PORT
    ) -> Path:
        """Adds a member and returns its file. Several members on a host differ in the UDP port."""
        name = f"m{host}" if udp_port == MEMBER_UDP_PORT else f"m{host}-{udp_port}"
        file = self.logs / f"{group}-{name}.member"
        words = ["--ip", ip_of(host), "--mac", mac_of(host), "--port", str(host)]
        words += ["--udp-port", str(udp_port), "--output", str(file)]
        self.aom("member", "add", group, name, *words)
        return file

    def start_member(self, host: int, file: Path) -> Child:
        """Starts a member, which writes its events to its log, and waits until it has joined."""
        member = self.start(f"member{host}", self.python(MEMBER, str(file)), host)
        member.wait_for_line("joined", READY_TIMEOUT_S)
        return member

    def start_sender(self, host: int, *words: str) -> Child:
        return self.start(f"sender{host}", self.python(SENDER, GROUP_IP, *words), host)

    def start_signer(self, host: int, key: Path, *options: str) -> Child:
        """Starts the signer of a signed group on a host, and waits until it is ready."""
        require_build(SIGNER)
        argv = [str(SIGNER), "run", "-i", HOST_INTERFACE, "--key", str(key), "--json", *options]
        signer = self.start("signer", argv, host)
        signer.wait_for_line("ready:", READY_TIMEOUT_S)
        return signer

    def lose(self, *hosts: int, senders: tuple[int, ...], for_s: float) -> None:
        """For a while makes these hosts drop the senders' packets."""
        with self.losing(*hosts, senders=senders):
            time.sleep(for_s)

    @contextmanager
    def losing(self, *hosts: int, senders: tuple[int, ...]) -> Iterator[None]:
        """Makes these hosts drop the senders' packets, by blackhole routes to the senders."""
        self._change_ways("add", hosts, senders)
        try:
            yield
        finally:
            self._change_ways("del", hosts, senders)

    def _change_ways(self, change: str, hosts: Sequence[int], senders: Sequence[int]) -> None:
        for host in hosts:
            for sender in senders:
                route = ["route", change, "blackhole", f"{ip_of(sender)}/32"]
                self.hosts.hosts[host].run(["ip", *route])

    def write_copies(self, group: int, copies: Sequence[tuple[int, int]]) -> None:
        """Sets the copies that the switch makes for a multicast group: (port, instance) of each.

        The service must not run, because only one controller can be primary.
        """
        replicas = [{"egress_port": port, "instance": instance} for port, instance in copies]
        entry = {"multicast_group_id": group, "replicas": replicas}
        file = self.logs / "copies.json"
        file.write_text(json.dumps({"target": "bmv2", "multicast_group_entries": [entry]}))
        self.hosts.switch.run(
            [str(REPRISE), "entries", "apply", str(file), "--switch", GRPC_ADDRESS]
        )

    def python(self, script: Path, *words: str, package: Path = PYTHON_PACKAGE) -> list[str]:
        interpreter = str(REPOSITORY / ".venv" / "bin" / "python")
        return ["env", f"PYTHONPATH={package}", interpreter, str(script), *words]

    def start(self, name: str, argv: list[str], host: int | None = None) -> Child:
        namespace = self.hosts.switch if host is None else self.hosts.hosts[host]
        self.n_started += 1
        child = namespace.start(argv, self.logs / f"{self.n_started}-{name}.log")
        self.stack.callback(child.stop)
        self.processes[name] = child
        return child


@contextmanager
def ordered(
    logs: Path,
    n_hosts: int,
    program: Path = AOM_HM,
    options: Sequence[str] = (),
    switch_options: Sequence[str] = (),
) -> Iterator[Ordered]:
    """Runs a switch and a service with one group, "counter", which has no members yet.

    `options` are further options of `group add`.
    """
    require_build(SWITCH, REPRISE)
    with Hosts(n_hosts) as hosts, ExitStack() as stack:
        whole = Ordered(hosts, logs, program, stack, switch_options)
        whole.start_switch()
        whole.start_service()
        whole.aom("group", "add", "counter", "--address", GROUP_IP, *options)
        yield whole


def events(member: Child) -> list[tuple[int, int, str, str, str]]:
    """The events in an ended member's log: epoch, number, kind, message, certificate."""
    lines = member.log_text().splitlines()
    return [tuple(json.loads(line)) for line in lines if line.startswith("[")]
