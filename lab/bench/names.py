"""What forwarders are called and which colour they have, in every table and figure. Pure."""

import math

from lab.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION

OURS = ("reprise_replication", "reprise_recirculation")
NAMES = {
    "reprise_replication": "P4, replication",
    "reprise_recirculation": "P4, recirculation",
    "relay": "relay by hand",
    "ovs": "Open vSwitch",
    "bmv2_replication": "BMv2, replication",
    "bmv2_recirculation": "BMv2, recirculation",
    "raw": "limit: one core pushing",
}
OTHER_NAMES = {"reprise_priority": "P4, priorities"}
"""Of forwarders that are in no figure."""
COLOURS = {
    "reprise_replication": GREEN,
    "reprise_recirculation": BLUE,
    "relay": VERMILION,
    "ovs": PURPLE,
    "bmv2_replication": ORANGE,
    "bmv2_recirculation": SKY,
    "raw": GREY,
}
MARKERS = {
    "reprise_replication": "s",
    "reprise_recirculation": "o",
    "relay": "^",
    "ovs": "D",
    "bmv2_replication": "v",
    "bmv2_recirculation": "v",
    "raw": "x",
}
PORTS = {
    "afxdp": "AF_XDP",
    "afpacket": "AF_PACKET",
    "udp": "UDP sockets",
    "system": "AF_PACKET",
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
    """For people; the interpreter is named, the native engine is the usual one."""
    name = {**NAMES, **OTHER_NAMES}.get(forwarder, forwarder)
    return f"{name}, interpreter" if engine == "interpreter" else name


def kind_of(port: str, wait: str) -> tuple[str, str]:
    """Which of the kinds a forwarder belongs to."""
    return ("afpacket" if port == "system" else port, wait)


def kind_name(kind: tuple[str, str]) -> str:
    """For people."""
    port, wait = kind
    return f"{PORTS.get(port, port)}, {'spinning' if wait == 'spin' else 'sleeping'}"


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
