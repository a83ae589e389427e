"""The contents of pisces.csv. Pure."""

import math
from dataclasses import dataclass

BITS = 8


@dataclass(frozen=True, slots=True)
class PiscesRow:
    """pisces.csv, and pisces-sets.csv, one a set: a switch with a program, at a frame size."""

    program: str
    switch: str
    variant: str
    """`naive` or `optimised`; Open vSwitch has no choice."""
    optimisations: str
    """What `--optimise` was told, with spaces between."""
    port: str
    wait: str
    flow_caches: str
    """`off` or `on`; the megaflow classifier of Open vSwitch cannot be turned off."""
    flows: int
    frame_bytes: int
    sets: int
    packets_per_s_lossless: float
    packets_per_s_peak: float
    mbit_per_s_lossless: float
    """Of frames, without preamble, check sequence and gap, which a veth does not have."""
    mbit_per_s_peak: float
    lossless_of_ovs: float
    """Beside Open vSwitch with flow caches alike, in the same set."""
    peak_of_ovs: float
    trial_s: float = math.nan
    """How long the trial was that decided about loss."""
    late_share: float = math.nan
    """Of its frames: those that came after the last one was sent."""
    kernel_share: float = math.nan
    """Of its processor time: what the kernel had, by its tick."""
    disturbed: float = math.nan
    """Of the sets: those in whose trial others used the processors each time."""


def mbit_per_s(packets_per_s: float, frame_bytes: int) -> float:
    """The frames' bits."""
    return packets_per_s * frame_bytes * BITS / 1e6
