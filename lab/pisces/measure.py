"""Measures the packets a second that each switch carries, in sets of alternating measurements.

A contestant is a switch in one variant, with flow caches on or off. For a program, a kind of port
and a frame size, all contestants are started, and one runs while the others are stopped
(`lab.bench.turns` says why). Each set starts new processes. A set searches for every contestant's
highest lossless rate; the trials of the contestants alternate (`lab.bench.search`). Then each
contestant is offered, in turns, a fifth more than the peak that its search found. The median of the
rates that arrived is the peak that is reported. In each turn a contestant's rate is divided by Open
vSwitch's rate with the same flow caches. A set's ratio of peaks is the median of these ratios, and
the ratio in the results is the median of all sets' ratios.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path

from lab.bench.cells import Failures, measured_sets
from lab.bench.search import QUICK, Effort, Found, Trial, in_turns, search
from lab.bench.trials import Probe
from lab.csvs import csv_text
from lab.files import write_whole
from lab.pisces import traffic
from lab.pisces.complexity import changes, counted
from lab.pisces.network import PROGRAMS
from lab.pisces.offer import UP_S, Turns, in_turn
from lab.pisces.switches import CONTESTANTS, OVS_NAME, PORTS, optimise_option
from lab.process import REPOSITORY
from lab.results.benchmarks import Change, Counted, PiscesRow, mbit_per_s
from lab.results.statistics import median, ratio
from lab.rows.open_vswitch import OvsGroup

SETS = {"afxdp": 3, "afpacket": 2}
SIZES = {"afxdp": traffic.FRAMES_BYTES, "afpacket": traffic.FRAMES_BYTES[::3]}
"""AF_PACKET, the second kind of port, is measured with the smallest and the largest frame."""
QUICK_SIZES = traffic.FRAMES_BYTES[:1]
TURN_S = 0.1
"""How long a contestant is measured in one turn; the others are stopped meanwhile."""
BEYOND_WHAT_CAME = 1.2
PEAK_TURNS, QUICK_TURNS = 9, 3
SHORT_S = 0.1
TRIAL_S = 5.0
"""The duration of the trials that decide a rate.

The duration is short because there are 288 searches. The parameter `trial_s` overrides it.
"""
REPEATS_OF_ALL_S = 30.0
OFFER_S = 0.35
"""About how long such a turn takes in all; it is only used to estimate the time left."""


@dataclass(frozen=True, slots=True)
class Cell:
    number: int
    """The set's number, from 0."""
    port: str
    program: str
    frame_bytes: int
    effort: Effort = field(default_factory=lambda: Effort(TRIAL_S, SHORT_S))
    peak_turns: int = PEAK_TURNS

    @property
    def planned_s(self) -> float:
        of_one_s = UP_S + self.effort.planned_s + self.peak_turns * OFFER_S
        return len(CONTESTANTS) * of_one_s

    def __str__(self) -> str:
        return f"{self.program}, {self.port}, {self.frame_bytes} bytes"


def cells(rounds: int = 0, trial_s: float = TRIAL_S, *, is_quick: bool = False) -> list[Cell]:
    """The combinations to measure: the first set of all combinations, then the next set."""
    if is_quick:
        return [
            Cell(0, "afxdp", program, size, QUICK, QUICK_TURNS)
            for program, size in product(PROGRAMS, QUICK_SIZES)
        ]
    return [
        Cell(number, port, program, size, Effort(trial_s, SHORT_S))
        for number in range(rounds or max(SETS.values()))
        for port in PORTS
        if number < (rounds or SETS[port])
        for program, size in product(PROGRAMS, SIZES[port])
    ]


def run(folder: Path, todo: Sequence[Cell]) -> Failures:
    """Measures every cell. A cell that fails is left out, and its failure is returned."""
    write_whole(folder / "pisces-complexity.csv", csv_text(Counted, counted(_read)))
    write_whole(folder / "pisces-headers.csv", csv_text(Change, changes(_read)))
    # Without Open vSwitch there is nothing to compare, so nothing is measured.
    what = OvsGroup.lacks()
    return measured_sets(
        (folder, "pisces"),
        PiscesRow,
        [] if what else todo,
        _measure,
        unit="packets",
        sets="sets",
        lacking=[what and f"this machine lacks {what}"],
    )


def _read(path: str) -> str:
    return (REPOSITORY / path).read_text()


def _measure(cell: Cell, probes: list[Probe]) -> list[PiscesRow]:
    where = (cell.port, cell.program, cell.frame_bytes)
    columns = ("number", "port", "program", "frame_bytes")
    what = {name: getattr(cell, name) for name in columns}
    with in_turn(CONTESTANTS, where, what, probes, REPEATS_OF_ALL_S) as runners:
        found = in_turns([(search(cell.effort), runner.offer) for runner in runners])
        for _ in range(cell.peak_turns):
            for runner, one in zip(runners, found, strict=True):
                trial = Trial(BEYOND_WHAT_CAME * max(one.peak_per_s, 1.0), TURN_S, "turn")
                runner.at_peak.append(runner.offer(trial).copies_per_s)
        pairs = [*zip(runners, found, strict=True)]
        return [_row(cell, *pair, *_ovs_beside(pair[0], pairs)) for pair in pairs]


def _ovs_beside(runner: Turns, pairs: Sequence[tuple[Turns, Found]]) -> tuple[Turns, Found]:
    """The result of Open vSwitch with the same setting of flow caches as `runner`'s."""
    caches = runner.contestant.flow_caches
    return next(
        pair
        for pair in pairs
        if pair[0].contestant.switch == OVS_NAME and pair[0].contestant.flow_caches == caches
    )


def _row(cell: Cell, runner: Turns, found: Found, ovs: Turns, of_ovs: Found) -> PiscesRow:
    contestant = runner.contestant
    options = optimise_option(contestant.variant, contestant.flow_caches)
    peak = median(runner.at_peak)
    how = runner.how(found)
    return PiscesRow(
        **asdict(contestant),
        program=cell.program,
        optimisations="" if contestant.switch == OVS_NAME else options.replace(",", " "),
        port=cell.port,
        wait=PORTS[cell.port],
        flows=runner.traffic.n_flows,
        frame_bytes=cell.frame_bytes,
        sets=1,
        packets_per_s_lossless=found.lossless_per_s,
        packets_per_s_peak=peak,
        mbit_per_s_lossless=mbit_per_s(found.lossless_per_s, cell.frame_bytes),
        mbit_per_s_peak=mbit_per_s(peak, cell.frame_bytes),
        lossless_of_ovs=ratio(found.lossless_per_s, of_ovs.lossless_per_s),
        # A ratio is computed for each pair of adjacent turns: the machine's speed is about the same
        # in adjacent turns, but not over all of them.
        peak_of_ovs=median(
            [ratio(*pair) for pair in zip(runner.at_peak, ovs.at_peak, strict=True)]
        ),
        **{name: how[name] for name in ("trial_s", "late_share", "kernel_share")},
        disturbed=float(how["is_disturbed"]),
    )
