"""The colour and marker of a row, the same in every figure. Pure."""

from lab.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION

BROWN, VIOLET, OLIVE, PINK, NAVY, SAND, RED = (
    "#8c564b",
    "#6a3d9a",
    "#8a8a00",
    "#e377c2",
    "#393b79",
    "#b8860b",
    "#8b0000",
)
"""Beside Okabe and Ito's seven: rows of one figure are told apart by their markers, too."""
LOOKS = {
    "p4_replication": (GREEN, "s"),
    "p4_recirculation": (BLUE, "o"),
    "multicast_one_stream": (VIOLET, "P"),
    "multicast_two_streams": (VIOLET, "X"),
    "userspace": (PINK, "<"),
    "userspace_port_per_host": (PINK, ">"),
    "pktswitch_sockets": (BROWN, "v"),
    "pktswitch_bypass": (VERMILION, "^"),
    "xdp_relay": (RED, "8"),
    "ovs_group": (PURPLE, "D"),
    "rtpengine": (OLIVE, "h"),
    "gstreamer_multiudpsink": (NAVY, "p"),
    "janus_streaming": (SAND, "*"),
    "bmv2_replication": (ORANGE, "1"),
    "bmv2_recirculation": (SKY, "2"),
    "raw": (GREY, "x"),
}
OTHER = ("#000000", "d")
"""Of rows that are not the project's."""


def colour_of(row: str) -> str:
    """The row's."""
    return LOOKS.get(row, OTHER)[0]


def marker_of(row: str) -> str:
    """The row's."""
    return LOOKS.get(row, OTHER)[1]
