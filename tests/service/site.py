"""A switch, one or two services, and perhaps three etcd nodes; each can be killed or cut off."""

import contextlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from reprise_conference import Client, ProblemError

from lab.controller import REPRISE
from lab.switch import LOSE_NOTHING, SWITCH
from tests.service.relay import Relay
from tests.service.running import LIMIT_S, SECRET, TOKEN_S, Process, free_port, token

FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
"""The library of Debian's package libfaketime.

With it, a file can move one process's wall clock ahead.
"""
TABLES = (
    "ConferenceIngress.verdict_count.verdicts",
    "ConferenceIngress.signed_in.sockets",
    "ConferenceEgress.receivers.receivers",
)
"""Tables of p4/conference.p4 whose entries' counters the switch's metrics have."""
DISK_BYTES = 8 * 1024 * 1024
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Service:
    process: Process
    url: str
    to_switch: Relay
    to_etcd: tuple[Relay, ...]
    clock: Path
    """A file that says how many seconds the service's wall clock is ahead."""

    def is_ready(self) -> bool:
        """Whether this service leads, and the switch has what the conferences need."""
        with contextlib.suppress(OSError, http.client.HTTPException):
            parts = urlsplit(self.url)
            connection = http.client.HTTPConnection(
                parts.hostname or "", parts.port, timeout=LIMIT_S
            )
            try:
                connection.request("GET", "/readyz")
                return connection.getresponse().status == 200
            finally:
                connection.close()
        return False


def free_ports(n: int) -> list[int]:
    return [free_port(socket.SOCK_STREAM) for _ in range(n)]


class Site:
    """The switch, the services and the etcd nodes, all of them on 127.0.0.1."""

    def __init__(self, folder: Path, *, with_etcd: bool) -> None:
        self._folder = folder
        self._open = contextlib.ExitStack()
        self.media_port = free_port(socket.SOCK_DGRAM)
        grpc, metrics = free_ports(2)
        self.switch_address = f"127.0.0.1:{grpc}"
        port = f"1@udp:127.0.0.1:{self.media_port}"
        # Other programs may keep the switch from the processors for a while, so that packets get
        # old. With a maximum age of 0 the switch drops none of them.
        argv = [SWITCH, "--grpc", self.switch_address, "-i", port, *LOSE_NOTHING]
        argv += ["--state", folder / "state", "--takeover-socket", folder / "takeover"]
        self.metrics_address = f"127.0.0.1:{metrics}"
        argv += ["--metrics", self.metrics_address, "--metrics-entries", ",".join(TABLES)]
        self.switch = Process(argv, folder / "switch.log")
        (folder / "secret").write_text(SECRET)
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.etcd = self._etcd_nodes() if with_etcd else []
        n_services = 2 if with_etcd else 1
        self.services = [self._service(number, grpc) for number in range(n_services)]
        administrator = token(grants={"administer": True}, exp=int(time.time()) + TOKEN_S)
        self.administrators = [Client(service.url, administrator) for service in self.services]

    def _etcd_nodes(self) -> list[Process]:
        clients, peers = free_ports(3), free_ports(3)
        self._etcd_ports = clients
        names = [f"n{number}" for number in range(3)]
        cluster = ",".join(
            f"{name}=http://127.0.0.1:{port}" for name, port in zip(names, peers, strict=True)
        )
        nodes = []
        for name, client, peer in zip(names, clients, peers, strict=True):
            urls = {"client": f"http://127.0.0.1:{client}", "peer": f"http://127.0.0.1:{peer}"}
            argv = [
                *("etcd", "--name", name, "--data-dir", self._folder / name),
                *("--listen-client-urls", urls["client"]),
                *("--advertise-client-urls", urls["client"]),
                *("--listen-peer-urls", urls["peer"]),
                *("--initial-advertise-peer-urls", urls["peer"]),
                *("--initial-cluster", cluster, "--initial-cluster-state", "new"),
                *("--heartbeat-interval", 100, "--election-timeout", 1000),
                *("--logger", "zap", "--log-level", "warn"),
            ]
            nodes.append(Process(argv, self._folder / f"{name}.log"))
        return nodes

    def _service(self, number: int, grpc: int) -> Service:
        [listen] = free_ports(1)
        to_switch = self._open.enter_context(Relay(grpc))
        to_etcd: tuple[Relay, ...] = ()
        store = f'store = "{self.disk / "store"}"\n'
        after = ""
        if self.etcd:
            to_etcd = tuple(self._open.enter_context(Relay(port)) for port in self._etcd_ports)
            endpoints = ", ".join(f'"http://127.0.0.1:{relay.port}"' for relay in to_etcd)
            store, after = "", f"\n[etcd]\nendpoints = [{endpoints}]\n"
        config = self._folder / f"reprise{number}.toml"
        config.write_text(
            f"""
listen = "127.0.0.1:{listen}"
{store}secrets = ["{self._folder / "secret"}"]

[switch]
name = "s1"
p4runtime = "127.0.0.1:{to_switch.port}"
addresses = [
    {{ port = 1, ip = "127.0.0.1", mac = "02:00:7f:00:00:01", udp_port = {self.media_port} }},
]
{after}"""
        )
        clock = self._folder / f"clock{number}"
        clock.write_text("+0\n")
        argv: list[object] = [REPRISE, "serve", "--config", config]
        if FAKETIME.exists():
            argv = [
                "env",
                f"LD_PRELOAD={FAKETIME}",
                f"FAKETIME_TIMESTAMP_FILE={clock}",
                "FAKETIME_NO_CACHE=1",
                "FAKETIME_DONT_FAKE_MONOTONIC=1",
                "FAKETIME_DONT_RESET=1",
                *argv,
            ]
        log = self._folder / f"service{number}.log"
        url = f"http://127.0.0.1:{listen}"
        return Service(Process(argv, log), url, to_switch, to_etcd, clock)

    @property
    def urls(self) -> list[str]:
        return [service.url for service in self.services]

    def etcd_leader(self) -> Process:
        """Waits until a node leads the etcd nodes, and returns it."""

        def leader() -> Process | None:
            for node, port in zip(self.etcd, self._etcd_ports, strict=True):
                request = urllib.request.Request(
                    f"http://127.0.0.1:{port}/v3/maintenance/status", b"{}"
                )
                with (
                    contextlib.suppress(OSError),
                    urllib.request.urlopen(request, timeout=LIMIT_S) as answer,
                ):
                    status = json.load(answer)
                    if status.get("leader") == status["header"]["member_id"]:
                        return node
            return None

        return self.wait(leader)

    def leader(self) -> Service:
        """Waits until a service is ready, and returns it."""
        return self.wait(lambda: next((one for one in self.services if one.is_ready()), None))

    def wait(self, found: Callable[[], Found | None]) -> Found:
        """Waits until `found` returns something, and returns it."""
        until = time.monotonic() + LIMIT_S
        while not (what := found()):
            assert time.monotonic() < until, self.said()
            time.sleep(0.02)
        return what

    def said(self) -> str:
        """The last lines of all processes."""
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-2_000:]}" for log in logs)

    def ask(self, request: Callable[[Client], dict[str, Any]]) -> dict[str, Any]:
        """Makes an administrator's request to the service that leads."""

        def answer() -> dict[str, Any] | None:
            for client in self.administrators:
                with contextlib.suppress(OSError, ProblemError):
                    return request(client)
            return None

        return self.wait(answer)

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        os.environ.pop("REPRISE_TOKEN", None)
        processes = [self.switch, *self.etcd, *(one.process for one in self.services)]
        with self._open:
            size = f"size={DISK_BYTES}"
            mount = ["mount", "-t", "tmpfs", "-o", size, "reprise-test", str(self.disk)]
            subprocess.run(mount, check=True)
            try:
                for process in processes:
                    process.start()
                self.leader()
                yield
            finally:
                for process in reversed(processes):
                    process.stop(signal.SIGKILL)
                subprocess.run(["umount", str(self.disk)], check=True)

    @contextlib.contextmanager
    def full_disk(self) -> Iterator[None]:
        """Fills the disk of the store during the block."""
        filler = self.disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(bytes(4_096)):
                pass
        try:
            yield
        finally:
            filler.unlink()


def lacks(*, with_etcd: bool) -> str:
    """What this machine lacks for a site; empty if nothing."""
    if os.geteuid() != 0:
        return "root, which mounts a small disk"
    if with_etcd and shutil.which("etcd") is None:
        return "etcd (Debian's package etcd-server)"
    return ""
