"""Reads the counters of a running switch from its metrics, and says whether they add up."""

import json
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass

from lab.netns import Namespace

METRICS_ADDRESS = "127.0.0.1:9560"
TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Counters:
    """All counters at one moment, or their growth between two moments, by name with labels."""

    metrics: Mapping[str, int]

    def sum_of(self, name: str, label: str = "") -> int:
        """Sums all samples of a metric, or those with a label like `reason="egress_queue_full"`."""
        return sum(
            value
            for key, value in self.metrics.items()
            if key.partition("{")[0] == name and label in key
        )

    def since(self, before: "Counters") -> "Counters":
        earlier = before.metrics
        return Counters({key: n - earlier.get(key, 0) for key, n in self.metrics.items()})

    @property
    def received(self) -> int:
        return self.sum_of("reprise_port_received_packets_total")

    @property
    def receive_drops(self) -> int:
        """Frames that a port lost, by its own count, before the switch received them."""
        return self.sum_of("reprise_port_receive_drops_total")

    @property
    def sent(self) -> int:
        return self.sum_of("reprise_port_transmitted_packets_total") - self.transmit_drops

    @property
    def transmit_drops(self) -> int:
        """Frames that a port could not send."""
        return self.sum_of("reprise_port_transmit_drops_total")

    @property
    def drops(self) -> dict[str, int]:
        """The number of dropped packets by reason. The ports' own drops are under `rx` and `tx`."""
        by_reason = {
            key.partition('reason="')[2].rstrip('"}'): n
            for key, n in self.metrics.items()
            if key.startswith("reprise_drops_total{")
        }
        return {**by_reason, "rx": self.receive_drops, "tx": self.transmit_drops}

    @property
    def vanished_inside(self) -> int:
        """How many packets are missing: received or made, but neither sent nor counted as dropped.

        Packets that still wait in the switch are not missing.
        """
        event = "reprise_packets_total"
        made = sum(self.sum_of(event, f'"{name}"') for name in ("received", "cloned", "replicated"))
        gone = sum(self.sum_of(event, f'"{name}"') for name in ("transmitted", "to_cpu"))
        gone += self.sum_of("reprise_drops_total")
        return made - gone - self.sum_of("reprise_packets_inside")


def parse_metrics(text: str) -> Counters:
    """Parses Prometheus' text format, but skips values that are not whole numbers (latencies)."""
    metrics = {}
    for line in text.splitlines():
        name, _, value = line.rpartition(" ")
        if not line.startswith("#") and value.isdigit():
            metrics[name] = int(value)
    return Counters(metrics)


def read_metrics(namespace: Namespace) -> Counters:
    """Reads the metrics of the switch that runs in a namespace."""

    def ask() -> str:
        with urllib.request.urlopen(f"http://{METRICS_ADDRESS}/metrics", timeout=TIMEOUT_S) as said:
            text: bytes = said.read()
        return text.decode()

    return parse_metrics(namespace.call(ask))


def device_drops(namespace: Namespace, interface: str) -> int:
    """Frames that the kernel counts as dropped at an interface, in either direction."""
    return sum(_drops(namespace, interface))


def device_refusals(namespace: Namespace, interface: str) -> int:
    """Frames that were sent at an interface and not accepted by the other end of its veth pair."""
    return _drops(namespace, interface)[1]


def _drops(namespace: Namespace, interface: str) -> tuple[int, int]:
    shown = json.loads(namespace.run(["ip", "-s", "-j", "link", "show", "dev", interface]))
    statistics = shown[0]["stats64"]
    return int(statistics["rx"]["dropped"]), int(statistics["tx"]["dropped"])
