"""Forwards small frames from one port to another: compares the kernel engine with other switches.

The other switches are Linux' bridge and its routing, Open vSwitch, and the native engine on AF_XDP.
The network is that of PISCES' comparison. The switches take turns (`lab.bench.turns`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.bench.cells import Failures, measured_sets
from lab.bench.search import FULL, QUICK, TRIAL_S, Effort, Found, in_turns, search
from lab.bench.trials import Probe
from lab.pisces import traffic
from lab.pisces.offer import UP_S, Turns, in_turn
from lab.pisces.switches import (
    KERNEL_NAME,
    LINUX_NAME,
    ON,
    OPTIMISED,
    OVS_NAME,
    REPRISE_NAME,
    Contestant,
)
from lab.results.benchmarks import SwitchingRow
from lab.rows.open_vswitch import OvsGroup

FRAME_BYTES = traffic.FRAMES_BYTES[0]
SETS = 3
SHORT_S = 0.1
"""The duration of short trials, which is long enough at a million small frames a second."""
KERNEL = Contestant(KERNEL_NAME, "", "")
LINUX = Contestant(LINUX_NAME, "", "")
NATIVE = Contestant(REPRISE_NAME, OPTIMISED, ON)
OVS = Contestant(OVS_NAME, "", ON)
PROGRAMS = {
    "l2": (KERNEL, LINUX, NATIVE, OVS),
    "l2l3": (KERNEL, LINUX, NATIVE, OVS),
    "l2l3_acl": (KERNEL, NATIVE, OVS),
}
"""By program: the switches that are compared. Linux by itself has no counterpart of an access
list."""
PORT = "afxdp"
"""The kind of port of those switches that can use several kinds."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of alternating measurements: a program, and the switches that do what it does."""

    program: str
    contestants: tuple[Contestant, ...]
    number: int = 0
    """The set's number, from 0."""
    effort: Effort = FULL

    @property
    def planned_s(self) -> float:
        return len(self.contestants) * (UP_S + self.effort.planned_s)

    def __str__(self) -> str:
        return f"{self.program}, {FRAME_BYTES} bytes"


def cells(rounds: int = 0, trial_s: float = TRIAL_S, *, is_quick: bool = False) -> list[Cell]:
    """The cells to measure, set by set. Open vSwitch is left out if it is not installed."""
    has_ovs = not OvsGroup.lacks()
    effort = QUICK if is_quick else Effort(trial_s, SHORT_S)
    return [
        Cell(program, tuple(one for one in those if one != OVS or has_ovs), number, effort)
        for number in range(rounds or (1 if is_quick else SETS))
        for program, those in PROGRAMS.items()
    ]


def run(folder: Path, todo: Sequence[Cell]) -> Failures:
    """Measures every cell into `switching.csv`. Returns the failures of the cells that failed."""
    return measured_sets(
        (folder, "switching"),
        SwitchingRow,
        todo,
        measure,
        unit="packets",
        lacking=[OvsGroup.lacks()],
    )


def measure(cell: Cell, probes: list[Probe]) -> list[SwitchingRow]:
    what = {"program": cell.program, "set": cell.number}
    with in_turn(cell.contestants, (PORT, cell.program, FRAME_BYTES), what, probes) as runners:
        found = in_turns([(search(cell.effort), runner.offer) for runner in runners])
        return [_row(cell, *pair) for pair in zip(runners, found, strict=True)]


def _row(cell: Cell, runner: Turns, found: Found) -> SwitchingRow:
    return SwitchingRow(
        program=cell.program,
        switch=runner.contestant.switch,
        frame_bytes=FRAME_BYTES,
        flows=runner.traffic.n_flows,
        packets_per_s_lossless=found.lossless_per_s,
        packets_per_s_peak=found.peak_per_s,
        set=cell.number,
        **runner.how(found),
    )
