"""The names and colours of forwarders in every table and figure. No I/O."""

import math

from lab.bench.forwarders import PRIORITY, RAW, P4Priority
from lab.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION
from lab.results.benchmarks import FanoutRow, ProcessorRow, ScalingRow
from lab.rows import ROWS
from lab.rows.row import Row

OURS = ("p4_replication", "p4_recirculation")
PKTSWITCH = "pktswitch_bypass"
"""The hand-written peer with which the switch is compared on ports that bypass the kernel."""
OVS = "ovs_group"
RELAY = "xdp_relay"
"""The hand-written peer with which forwarders in the kernel are compared."""
NO_FORWARDER = ("limit: one core pushing", GREY, "x")
ENGINES = {"interpreter": ", interpreter", "kernel": ", kernel engine"}
PORTS = {
    "afxdp": "AF_XDP",
    "afpacket": "AF_PACKET",
    "udp": "UDP sockets",
    "udp_batched": "UDP sockets",
    "system": "AF_PACKET",
    "xdp": "XDP",
}
"""Names of ports for people. Open vSwitch's system port is an AF_PACKET socket."""
PIPELINES = {
    "l2": "L2",
    "l3": "L3 router",
    "l2l3": "L2L3",
    "l2l3_acl": "L2L3-ACL",
    "sfu": "SFU, replication",
    "sfu_recirculation": "SFU, recirculation",
}
PIPELINE_COLOURS = {
    "l2": ORANGE,
    "l3": PURPLE,
    "l2l3": PURPLE,
    "l2l3_acl": VERMILION,
    "sfu": GREEN,
    "sfu_recirculation": BLUE,
}
PIPELINE_MARKERS = {
    **{"l2": "v", "l3": "D", "l2l3": "D", "l2l3_acl": "^"},
    **{"sfu": "s", "sfu_recirculation": "o"},
}
WAITS = {
    "spin": "spinning",
    "sleep": "sleeping",
    "thread": "a thread",
    "shared": "on the sender's processor",
}
"""`thread` and `shared` are for forwarding in the kernel (`lab.rows.in_kernel`)."""
KINDS = (
    ("afxdp", "spin"),
    ("afpacket", "spin"),
    ("udp", "spin"),
    ("afxdp", "sleep"),
    ("afpacket", "sleep"),
    ("udp", "sleep"),
)
"""The kinds of forwarders: a port and a way of waiting. Forwarders of one kind are compared."""


def name_of(forwarder: str, engine: str = "") -> str:
    """A forwarder's name for people. It includes the engine, unless this is the native engine."""
    known: dict[str, type[Row]] = {**ROWS, PRIORITY: P4Priority}
    name = known[forwarder].label if forwarder in known else forwarder
    label = NO_FORWARDER[0] if forwarder == RAW else name
    return f"{label}{ENGINES.get(engine, '')}"


def colour_of(row: str) -> str:
    return _look(row)[0]


def marker_of(row: str) -> str:
    return _look(row)[1]


def _look(row: str) -> tuple[str, str]:
    if row == RAW:
        return NO_FORWARDER[1:]
    return ROWS[row].look if row in ROWS else Row.look


def full_name(row: FanoutRow | ScalingRow | ProcessorRow) -> str:
    """Names a forwarder, its port and how it waits."""
    return f"{name_of(row.row, row.engine)}: {kind_name((row.port, row.wait))}"


def kind_of(port: str, wait: str) -> tuple[str, str]:
    """The kind (of `KINDS`) to which a forwarder belongs."""
    return ({"system": "afpacket", "udp_batched": "udp"}.get(port, port), wait)


def kind_name(kind: tuple[str, str]) -> str:
    port, wait = kind
    return ", ".join(filter(None, (PORTS.get(port, port), WAITS.get(wait, wait))))


def count(value: float) -> str:
    """Writes a rate to three digits, with commas between thousands; a dash for NaN."""
    if math.isnan(value):
        return "-"
    digits = max(0, len(f"{value:.0f}") - 3)
    return f"{round(value, -digits):,.0f}"


def number(value: float, form: str = "") -> str:
    """Writes a number in `form`, by default to three digits; a dash for NaN."""
    if math.isnan(value):
        return "-"
    usual = ",.0f" if abs(value) >= 1000 else ".3g"
    return f"{value:{form or usual}}"
