"""Small frames from one port to another: the kernel engine beside what else forwards them.

Linux' bridge and its routing, Open vSwitch, and the native engine on AF_XDP, with the network of
PISCES' comparison. They take turns (`lab.bench.turns`).
"""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.bench.experiment import Failures, csv_text, each
from lab.bench.fanout import median_row
from lab.bench.forwarders import ticks_of
from lab.bench.load import Run
from lab.bench.noise import Listener, Noise
from lab.bench.results import SwitchingRow
from lab.bench.search import FULL, QUICK, TRIAL_S, Effort, Found, Trial, in_turns, search
from lab.csvs import text_of
from lab.files import write_whole
from lab.pisces import traffic
from lab.pisces.network import published
from lab.pisces.offer import Traffic, offer
from lab.pisces.switches import (
    KERNEL_NAME,
    LINUX_NAME,
    ON,
    OPTIMISED,
    OVS_NAME,
    REPRISE_NAME,
    Contestant,
    Running,
    Setting,
    running,
)
from lab.process import ChildError
from lab.rows.open_vswitch import OvsGroup

FILE = "switching.csv"
FRAME_BYTES = traffic.FRAMES_BYTES[0]
ROUNDS_FILE = "switching-rounds.csv"
SETS = 3
SHORT_S = 0.1
"""Of small frames, a million a second."""
SETTLE_PER_S, SETTLE_S = 20_000.0, 0.1
UP_S = 2.0
"""What starting one takes, about."""
REPEATS_MAX, REPEATS_OF_ALL_S = 5, 150.0
"""As of `lab.bench.fanout`."""
KERNEL = Contestant(KERNEL_NAME, "", "")
LINUX = Contestant(LINUX_NAME, "", "")
NATIVE = Contestant(REPRISE_NAME, OPTIMISED, ON)
OVS = Contestant(OVS_NAME, "", ON)
PROGRAMS = {
    "l2": (KERNEL, LINUX, NATIVE, OVS),
    "l2l3": (KERNEL, LINUX, NATIVE, OVS),
    "l2l3_acl": (KERNEL, NATIVE, OVS),
}
"""Linux has no access list of its own without a program for it."""
PORT = "afxdp"
"""Of those that have a choice."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One program, with those that forward as it says."""

    program: str
    contestants: tuple[Contestant, ...]
    number: int = 0
    """Of the set, from 0."""
    effort: Effort = FULL

    @property
    def planned_s(self) -> float:
        """The approximate duration."""
        return len(self.contestants) * (UP_S + self.effort.planned_s)

    def __str__(self) -> str:
        return f"{self.program}, {FRAME_BYTES} bytes"


def cells(rounds: int = 0, trial_s: float = TRIAL_S, *, is_quick: bool = False) -> list[Cell]:
    """A set of all programs, then the next; Open vSwitch where there is one."""
    has_ovs = not OvsGroup.lacks()
    effort = QUICK if is_quick else Effort(trial_s, SHORT_S)
    return [
        Cell(program, tuple(one for one in those if one != OVS or has_ovs), number, effort)
        for number in range(rounds or (1 if is_quick else SETS))
        for program, those in PROGRAMS.items()
    ]


@dataclass(frozen=True, slots=True)
class Probe:
    """One trial, and its result."""

    cell: Cell
    contestant: Contestant
    trial: Trial
    run: Run
    kernel_share: float
    noise: Noise

    @property
    def is_void(self) -> bool:
        """Others used the processors."""
        return self.noise.spoils(self.run.seconds)

    def cells(self) -> dict[str, object]:
        """Its columns in the raw samples."""
        where = {"program": self.cell.program, "set": self.cell.number}
        rate = {"step": self.trial.step, "offered_packets_per_s": self.trial.per_s}
        beside = {"kernel_share": self.kernel_share, **asdict(self.noise)}
        return {**where, **asdict(self.contestant), **rate, **asdict(self.run), **beside}


@dataclass(slots=True)
class _Runner:
    """A contestant that has its turn, or stands."""

    cell: Cell
    up: Running
    traffic: Traffic
    probes: list[Probe]
    _repeated_s: float = 0.0

    def offer(self, trial: Trial) -> Run:
        """It runs as long as packets are offered; again where others disturbed it."""
        for _ in range(REPEATS_MAX):
            probe = self._once(trial)
            # Or packets of an earlier offer came: a switch that stood may have kept some.
            is_void = probe.is_void or probe.run.loss < 0.0
            if not is_void or self._repeated_s + trial.seconds > REPEATS_OF_ALL_S:
                break
            self._repeated_s += trial.seconds
        return probe.run

    def _once(self, trial: Trial) -> Probe:
        self.up.go_on()
        try:
            listener, before = Listener(), ticks_of(self.up.pids)
            run = offer(self.up, self.traffic, trial.per_s, trial.seconds)
            share = ticks_of(self.up.pids).since(before).kernel_share
            noise = listener.noise()
        finally:
            self.up.stand()
        probe = Probe(self.cell, self.up.setting.contestant, trial, run, share, noise)
        self.probes.append(probe)
        return probe


def run(folder: Path, todo: Sequence[Cell]) -> Failures:
    """Measures every cell into `switching.csv`; a cell that fails is returned and left out."""
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    rows: list[SwitchingRow] = []
    probes: list[Probe] = []
    failures: Failures = [why for why in (OvsGroup.lacks(),) if why]
    for cell in each(todo, todo[0].planned_s if todo else 0.0, failures):
        try:
            rows += measure(cell, probes)
        except ChildError as error:
            failures.append(f"{cell}: {error}")
        write_whole(folder / ROUNDS_FILE, csv_text(SwitchingRow, rows))
        write_whole(raw / "switching-probes.csv", _probes_csv(probes))
    write_whole(folder / FILE, csv_text(SwitchingRow, merged_rows(rows)))
    return failures


def merged_rows(rows: Sequence[SwitchingRow]) -> list[SwitchingRow]:
    """Sets of the same become one row: the median of each column."""
    alike: dict[tuple[str, str, int], list[SwitchingRow]] = {}
    for row in rows:
        alike.setdefault((row.program, row.switch, row.frame_bytes), []).append(row)
    return [median_row(sets) for sets in alike.values()]


def measure(cell: Cell, probes: list[Probe]) -> list[SwitchingRow]:
    """One cell; its trials are added to `probes`."""
    with _runners(cell, probes) as runners:
        found = in_turns([(search(cell.effort), runner.offer) for runner in runners])
        return [_row(cell, *pair) for pair in zip(runners, found, strict=True)]


def _row(cell: Cell, runner: _Runner, found: Found) -> SwitchingRow:
    decided = next((one for one in reversed(runner.probes) if one.run is found.decided), None)
    return SwitchingRow(
        program=cell.program,
        switch=runner.up.setting.contestant.switch,
        frame_bytes=FRAME_BYTES,
        flows=runner.traffic.n_flows,
        packets_per_s_lossless=found.lossless_per_s,
        packets_per_s_peak=found.peak_per_s,
        set=cell.number,
        trial_s=found.trial_s,
        bound_by=found.bound_by,
        is_peak_least=int(found.is_peak_least),
        late_share=found.late_share,
        kernel_share=decided.kernel_share if decided else float("nan"),
        is_disturbed=int(decided is not None and decided.is_void),
    )


def _probes_csv(probes: Sequence[Probe]) -> str:
    lines = [probe.cells() for probe in probes]
    names = list(lines[0]) if lines else []
    return text_of([names, *([str(value) for value in line.values()] for line in lines)])


@contextlib.contextmanager
def _runners(cell: Cell, probes: list[Probe]) -> Iterator[list[_Runner]]:
    """All contestants, up and standing."""
    network = published()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reprise-bench-")))
        offered = Traffic(folder / "frames", cell.program, FRAME_BYTES)
        offered.write()
        runners = []
        for contestant in cell.contestants:
            setting = Setting(contestant, PORT, cell.program, network)
            up = stack.enter_context(running(setting, folder / contestant.switch))
            offer(up, offered, SETTLE_PER_S, SETTLE_S)
            up.stand()
            runners.append(_Runner(cell, up, offered, probes))
        yield runners
