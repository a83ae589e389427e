"""Runs a sequencer with its service and signer, or a plain multicast switch, in network namespaces.

    send ----port 1 | reprise-switch | port 2---- receive        all receivers are at port 2
                    |                | port 7---- reprise-signer

Each switch has links of its own, with the load at their far ends. The switches take turns: while
one is measured, the others are stopped.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.controller import REPRISE
from lab.netns import Namespace, Network
from lab.process import REPOSITORY, Child, InTurn, run
from lab.sites import LOAD_CPU, SFU_CPU, on_cpu
from lab.switch import READY_TIMEOUT_S, RELEASE, SWITCH

BENCH = RELEASE / "reprise-aom-bench"
SIGNER = RELEASE / "reprise-signer"
PROGRAMS = {
    "tagged": REPOSITORY / "p4" / "aom_hm.p4",
    "signed": REPOSITORY / "p4" / "aom_pk.p4",
    "plain": REPOSITORY / "p4" / "latency_stamp.p4",
}
GROUP_IP = "239.1.0.1"
GRPC = {"tagged": "127.0.0.1:9561", "signed": "127.0.0.1:9562", "plain": "127.0.0.1:9563"}
SERVICE_PORT = {"tagged": 7441, "signed": 7442}
FIRST_RECEIVER = 10
MESSAGE_BYTES = {"tagged": 14, "signed": 4, "plain": 14}
"""With messages of this length, frames are as long as the published ones, apart from the mark by
which the load identifies a request."""
FRAME_BYTES = {"tagged": 92, "signed": 162, "plain": 92}
SIGNER_PORT = 7
PLAIN_GROUP = 1
LOAD_SPARE_S = 120.0


class Links(Network):
    """The namespaces of one switch, of its hosts, and of its signer."""

    def __init__(self) -> None:
        super().__init__()
        self.switch = Namespace(f"{self.name}-switch")
        self.hosts = Namespace(f"{self.name}-hosts")
        self.signer = Namespace(f"{self.name}-signer")

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        return (self.switch, self.hosts, self.signer)

    def _make(self) -> None:
        self._make_namespaces()
        ends = {"port1": ("send", self.hosts), "port2": ("receive", self.hosts)}
        ends[f"port{SIGNER_PORT}"] = ("signer", self.signer)
        for port, (end, far) in ends.items():
            run(
                ["ip", "-n", self.switch.name, "-batch", "-"],
                stdin=f"link add {port} type veth peer name {end} netns {far.name}\n"
                f"link set {port} up\nlink set lo up\n",
            )
            run(["ip", "-n", far.name, "link", "set", end, "up"])


@dataclass
class Sequencer(InTurn):
    """A switch with its program and a group, and the load at the ends of its links.

    The service is stopped together with its switch, because it could not reach a stopped switch.
    """

    kind: str
    links: Links
    folder: Path
    processes: list[Child] = field(default_factory=list)
    pids: tuple[int, ...] = ()
    receivers: int = 0

    def start(self) -> None:
        """Starts the switch, the service and the signer, and makes a group without members."""
        ports = [word for port in (1, 2, SIGNER_PORT) for word in ("-i", f"{port}@port{port}")]
        argv = [str(SWITCH), *ports, "--grpc", GRPC[self.kind]]
        program = [str(PROGRAMS[self.kind])] if self.kind == "plain" else []
        self._start("switch", on_cpu(SFU_CPU, [*argv, *program]), self.links.switch)
        if self.kind == "plain":
            return
        listen = f"127.0.0.1:{SERVICE_PORT[self.kind]}"
        serve = ["serve", "--program", str(PROGRAMS[self.kind]), "--listen", listen]
        self._start("service", [*self._aom(*serve), "--switch", GRPC[self.kind]], self.links.switch)
        variant = []
        if self.kind == "signed":
            key = self.folder / "signer.key"
            run([str(SIGNER), "key", "new", str(key)])
            public = run([str(SIGNER), "key", "public", str(key)]).strip()
            variant = ["--variant", "signed", "--signer-port", str(SIGNER_PORT)]
            variant += ["--signer-key", public]
            signer = [str(SIGNER), "run", "-i", "signer", "--key", str(key), "--json"]
            self._start("signer", on_cpu(SFU_CPU, signer), self.links.signer)
        self.aom("group", "add", "g", "--address", GROUP_IP, *variant)

    def set_receivers(self, receivers: int) -> None:
        """Sets the number of the group's receivers, which can only grow."""
        if self.kind == "plain":
            self._set_copies(receivers)
        else:
            for number in range(self.receivers, receivers):
                where = ["--ip", f"10.0.0.{FIRST_RECEIVER + number}", "--port", "2"]
                mac = ["--mac", f"02:00:00:00:00:{number:02x}"]
                file = ["--output", str(self.folder / f"m{number}.member")]
                self.aom("member", "add", "g", f"m{number}", *where, *mac, *file)
        self.receivers = receivers

    def _set_copies(self, copies: int) -> None:
        replicas = [{"egress_port": 2, "instance": number} for number in range(copies)]
        document = {
            "target": "bmv2",
            "table_entries": [
                {
                    "table": "StampIngress.ways",
                    "match": {"ingress_port": [1]},
                    "action_name": "StampIngress.replicate",
                    "action_params": {"group": PLAIN_GROUP},
                }
            ],
            "multicast_group_entries": [{"multicast_group_id": PLAIN_GROUP, "replicas": replicas}],
        }
        file = self.folder / "entries.json"
        file.write_text(json.dumps(document))
        words = ["entries", "apply", str(file), "--replace", "--switch", GRPC[self.kind]]
        self.links.switch.run([str(REPRISE), *words])

    def aom(self, *words: str) -> dict[str, Any]:
        """Runs `reprise aom` with these words and returns its JSON document."""
        document: dict[str, Any] = json.loads(
            self.links.switch.run([*self._aom(*words), "--json"], timeout_s=120.0)
        )
        return document

    def _aom(self, *words: str) -> list[str]:
        state = ["--state", str(self.folder / "state")]
        return [str(REPRISE), "aom", words[0], *state, *words[1:]]

    def _start(self, name: str, argv: list[str], where: Namespace) -> None:
        child = where.start(argv, self.folder / f"{name}.log")
        self.processes.append(child)
        self.pids += (child.pid,)
        child.wait_for_line("ready:", READY_TIMEOUT_S)

    def load(self, rate: float, seconds: float, delays: Path | None = None) -> dict[str, Any]:
        argv = [str(BENCH), "load", "--send", "send", "--receive", "receive"]
        argv += ["--kind", self.kind, "--group", GROUP_IP, "--receivers", str(self.receivers)]
        argv += ["--first-receiver", str(FIRST_RECEIVER), "--rate", f"{rate:.3f}"]
        argv += ["--seconds", f"{seconds:.3f}", "--message-bytes", str(MESSAGE_BYTES[self.kind])]
        argv += ["--delays", str(delays)] if delays else []
        said = self.links.hosts.run(on_cpu(LOAD_CPU, argv), timeout_s=seconds + LOAD_SPARE_S)
        document: dict[str, Any] = json.loads(said)
        return document


@contextlib.contextmanager
def sequencer(kind: str, folder: Path) -> Iterator[Sequencer]:
    """Starts a sequencer in a network of its own and yields it while it runs."""
    folder.mkdir(parents=True)
    with Links() as links:
        one = Sequencer(kind, links, folder)
        try:
            one.start()
            yield one
        finally:
            one.go_on()
            for child in reversed(one.processes):
                child.stop()
