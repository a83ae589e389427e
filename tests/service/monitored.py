"""A service, a switch and Prometheus in a network namespace, with participants that send."""

import contextlib
import http.client
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import yaml
from reprise_conference import MediaSocket, hello

from lab.netns import Namespace, Network
from lab.process import REPOSITORY
from tests.service.running import (
    LIMIT_S,
    Process,
    Running,
    free_port,
    opened,
    publish,
    rtp,
    subscribe,
)

MONITORING = REPOSITORY / "packaging/monitoring"
WINDOW = "20s"
"""The time over which the rules compute rates in this test, instead of minutes."""
BEAT_S = 0.02
Found = TypeVar("Found")


class Place(Network):
    """A namespace with a loopback and a veth pair: a port of the switch, and its other end."""

    def __init__(self) -> None:
        super().__init__()
        self.here = Namespace(f"{self.name}-monitored")

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        return (self.here,)

    def _make(self) -> None:
        self._make_namespaces()
        for command in (
            "ip link set lo up",
            "ip link add eth1 type veth peer name far",
            "ip link set eth1 up",
            "ip link set far up",
            # Without this, the kernel engine would refuse the port.
            "ethtool -K far gro on",
        ):
            self.here.run(command.split())


def get(url: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
    """Makes a GET request; returns the status and the content of the answer."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=LIMIT_S)
    try:
        connection.request("GET", url.removeprefix(f"http://{parts.netloc}"), headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


class Prometheus:
    """Runs Prometheus with our example of a configuration, but with these targets.

    Its rules are changed, too, so that they do not wait for minutes.
    """

    def __init__(self, folder: Path, targets: dict[str, str]) -> None:
        config = yaml.safe_load((MONITORING / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        assert {job["job_name"] for job in config["scrape_configs"]} == targets.keys()
        for job in config["scrape_configs"]:
            [place] = job["static_configs"]
            place["targets"] = [targets[job["job_name"]]]
        rules = (MONITORING / "rules.yml").read_text()
        rules = re.sub(r"\[(5|10)m\]", f"[{WINDOW}]", rules).replace(
            "offset 5m", f"offset {WINDOW}"
        )
        rules = re.sub(r"(?m)^( +for:) .*$", r"\1 0s", rules)
        (folder / "rules.yml").write_text(rules)
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        address = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        self.url = f"http://{address}"
        self.process = Process(
            [
                "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={folder / 'prometheus'}",
                f"--web.listen-address={address}",
            ],
            folder / "prometheus.log",
        )

    def ask(self, what: str, **parameters: str) -> Any:
        status, content = get(f"{self.url}/api/v1/{what}?{urlencode(parameters)}")
        assert status == 200, content
        return json.loads(content)["data"]

    def query(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """Returns the labels and the current values of the series that an expression yields."""
        data = self.ask("query", query=expr)
        assert data["resultType"] == "vector", expr
        return [(one["metric"], float(one["value"][1])) for one in data["result"]]

    def series(self, selector: str) -> list[dict[str, str]]:
        """Returns the labels of all series that were ever scraped and that `selector` matches."""
        found: list[dict[str, str]] = self.ask("series", **{"match[]": selector})
        return found

    def firing(self) -> dict[str, dict[str, str]]:
        """Returns the annotations of the alerts that fire, by the alerts' names.

        If several alerts have the same name, it returns the annotations of only one.
        """
        alerts = self.ask("alerts")["alerts"]
        return {
            alert["labels"]["alertname"]: alert["annotations"]
            for alert in alerts
            if alert["state"] == "firing"
        }


class Monitored:
    """A context in which everything runs and Ann sends to Bob.

    `call` makes a call in the network namespace in which everything runs.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = contextlib.ExitStack()
        self.place = Place()
        self.state = folder / "state"
        self._stop = threading.Event()

    def __enter__(self) -> Self:
        with self._open:
            self._open.enter_context(self.place)
            self.place.here.call(self._start)
            self._open = self._open.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def call(self, function: Callable[[], Found]) -> Found:
        return self.place.here.call(function)

    def _start(self) -> None:
        metrics = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        port = ["-i", "2@afxdp:eth1", "--engine", "kernel"]
        options = [*port, "--metrics", metrics, "--state", self.state]
        self.running = self._open.enter_context(Running(self._folder, switch_options=options))
        service = urlsplit(self.running.url).netloc
        targets = {"reprise-conference": service, "reprise-switch": metrics}
        self.prometheus = Prometheus(self._folder, targets)
        self._open.callback(self.prometheus.process.stop)
        self.prometheus.process.start()
        self.wait(self._is_ready)
        ann, self.bob = self.running.client("ann"), self.running.client("bob")
        self.camera = self._open.enter_context(opened(publish(ann, "ann")))
        screen = self._open.enter_context(opened(subscribe(self.bob, "bob", "ann")))
        self.stray = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._open.enter_context(self.stray)
        self.stray.connect(("127.0.0.1", self.running.media_port))
        # A test makes this socket send more than it may, in a track of its own.
        quality = {"name": "one", "max_kbps": 100, "leg": "greedy"}
        there = ann.publish("c", "ann", "greedy", kind="video", qualities=[quality])
        self.greedy_leg = there["legs"]["greedy"]
        self.greedy = self._open.enter_context(opened(self.greedy_leg))
        # A thread runs in the network namespace of the thread that starts it.
        sending = threading.Thread(target=self._send, args=(screen,))
        sending.start()
        self._open.callback(sending.join)
        self._open.callback(self._stop.set)

    def _is_ready(self) -> bool:
        try:
            return get(f"{self.prometheus.url}/-/ready")[0] == 200
        except OSError:
            return False

    def _send(self, screen: MediaSocket) -> None:
        """Sends media, and now and then a packet from an unknown socket, until the end."""
        number = 0
        while not self._stop.wait(BEAT_S):
            # `receive` also answers hellos. While the switch is down, nobody listens, so calls may
            # fail.
            for one in (self.camera, self.greedy, screen):
                with contextlib.suppress(OSError):
                    one.receive(0.001)
            with contextlib.suppress(OSError):
                self.camera.send(rtp(number % 65_536, bytes(500)))
            if number % 50 == 0:
                with contextlib.suppress(OSError):
                    self.stray.send(rtp(number % 65_536))
            number += 1

    def join_again(self, number: int) -> None:
        """Makes a request that makes the service write its store."""
        self.bob.join("c", "bob", f"Bob {number}")

    def wait(self, found: Callable[[], Found], why: Callable[[], object] = lambda: "") -> Found:
        """Waits until `found` returns something, and returns it."""
        until = time.monotonic() + LIMIT_S
        while not (what := found()):
            assert time.monotonic() < until, f"{why()}\n{self.said()}"
            time.sleep(0.2)
        return what

    def said(self) -> str:
        logs = sorted(self._folder.glob("*.log"))
        return "\n".join(f"{log.name}: {log.read_text(errors='replace')[-2_000:]}" for log in logs)

    def alerts(
        self, expected: Sequence[str], meanwhile: Callable[[], object] = lambda: None
    ) -> dict[str, dict[str, str]]:
        """Waits until these alerts have fired, perhaps not at the same time."""
        missing, found = set(expected), dict[str, dict[str, str]]()

        def all_have_fired() -> bool:
            meanwhile()
            found.update(self.prometheus.firing())
            missing.difference_update(found)
            return not missing

        self.wait(all_have_fired, lambda: f"expected alerts {sorted(missing)}, fired {list(found)}")
        return {name: found[name] for name in expected}


def false_hellos(leg: dict[str, Any]) -> list[bytes]:
    """Makes hellos that must be refused.

    They are: a hello of an unknown version, an answer, a hello for a leg (a socket's connection to
    the conference) that does not exist, and a hello with a wrong signature.
    """
    key, nonce = bytes(32), bytes(hello.NONCE_LEN)
    unknown = hello.sign(key, 1, 0x7FFF_FFFF, 0, nonce)
    return [
        unknown[:2] + b"\x07" + unknown[3:],
        hello.sign(key, 2, leg["number"], 0, nonce),
        unknown,
        hello.sign(key, 1, leg["number"], 0, nonce),
    ]
