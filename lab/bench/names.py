"""The names and colours of forwarders in every table and figure. Pure."""

import math

from lab.bench.forwarders import BMV2_PROGRAMS, PRIORITY, RAW, P4Priority
from lab.colours import BLUE, GREEN, ORANGE, PURPLE, VERMILION
from lab.looks import colour_of, marker_of
from lab.rows import ROWS

OURS = ("p4_replication", "p4_recirculation")
PKTSWITCH = "pktswitch_bypass"
"""The peer by hand: what the switch is set beside on every port past the kernel."""
OVS = "ovs_group"
RELAY = "xdp_relay"
"""The peer by hand of what forwards in the kernel."""
COMPARED_ROWS = (*OURS, PKTSWITCH, "pktswitch_sockets", OVS, *BMV2_PROGRAMS, RELAY)
NAMES = {**{name: ROWS[name].label for name in COMPARED_ROWS}, RAW: "limit: one core pushing"}
OTHER_NAMES = {PRIORITY: P4Priority.label}
"""Of forwarders that are in no figure."""
COLOURS = {name: colour_of(name) for name in NAMES}
MARKERS = {name: marker_of(name) for name in NAMES}
ENGINES = {"interpreter": ", interpreter", "kernel": ", kernel engine"}
PORTS = {
    "afxdp": "AF_XDP",
    "afpacket": "AF_PACKET",
    "udp": "UDP sockets",
    "udp_batched": "UDP sockets",
    "system": "AF_PACKET",
    "xdp": "XDP",
}
"""Open vSwitch's system port is an AF_PACKET socket."""
PIPELINES = {
    "l2": "L2",
    "l3": "L3 router",
    "l2l3_acl": "L2L3-ACL",
    "sfu": "SFU, replication",
    "sfu_recirculation": "SFU, recirculation",
}
PIPELINE_COLOURS = {
    "l2": ORANGE,
    "l3": PURPLE,
    "l2l3_acl": VERMILION,
    "sfu": GREEN,
    "sfu_recirculation": BLUE,
}
PIPELINE_MARKERS = {"l2": "v", "l3": "D", "l2l3_acl": "^", "sfu": "s", "sfu_recirculation": "o"}
WAITS = {
    "spin": "spinning",
    "sleep": "sleeping",
    "thread": "a thread",
    "shared": "on the sender's processor",
}
"""The latter two are the kernel's (`lab.rows.in_kernel`)."""
KINDS = (
    ("afxdp", "spin"),
    ("afpacket", "spin"),
    ("udp", "spin"),
    ("afxdp", "sleep"),
    ("afpacket", "sleep"),
    ("udp", "sleep"),
)
"""Forwarders are compared within one of these: a port and a way of waiting."""


def name_of(forwarder: str, engine: str = "") -> str:
    """For people; other engines are named, the native one is the usual one."""
    known = {**{name: row.label for name, row in ROWS.items()}, **NAMES, **OTHER_NAMES}
    name = known.get(forwarder, forwarder)
    return f"{name}{ENGINES.get(engine, '')}"


def kind_of(port: str, wait: str) -> tuple[str, str]:
    """Which of the kinds a forwarder belongs to."""
    return ({"system": "afpacket", "udp_batched": "udp"}.get(port, port), wait)


def kind_name(kind: tuple[str, str]) -> str:
    """For people."""
    port, wait = kind
    return ", ".join(filter(None, (PORTS.get(port, port), WAITS.get(wait, wait))))


def count(value: float) -> str:
    """A rate to three digits, with thousands apart; a dash where there is none."""
    if math.isnan(value):
        return "-"
    digits = max(0, len(f"{value:.0f}") - 3)
    return f"{round(value, -digits):,.0f}"


def number(value: float, form: str = "") -> str:
    """A number, or a dash where there is none; three digits unless said otherwise."""
    if math.isnan(value):
        return "-"
    usual = ",.0f" if abs(value) >= 1000 else ".3g"
    return f"{value:{form or usual}}"


def ratio(ours: float, theirs: float) -> float:
    """Not a number where one of them was not measured."""
    if math.isnan(ours) or math.isnan(theirs) or theirs <= 0:
        return float("nan")
    return ours / theirs
