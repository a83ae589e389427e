"""The packets a second that each switch carries: contestants in turns, set by set.

All contestants of a program, a kind of port and a frame size are up, and one runs while the others
are stopped (`lab.bench.turns` says why). Each set has new processes. In a set every contestant's
highest lossless rate is searched for, trial by trial in turns (`lab.bench.search`). Then each is
offered a fifth more than its peak, in turns, and the median of the rates that came is its peak. A
ratio of peaks is the median of the turns' ratios, a ratio of lossless rates is that of the set. A
row's ratio is the median of its sets'.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path

from lab.bench.experiment import Failures, csv_text, each, median, merged
from lab.bench.forwarders import ticks_of
from lab.bench.load import Run
from lab.bench.names import ratio
from lab.bench.noise import Listener, Noise
from lab.bench.search import QUICK, Effort, Found, Trial, in_turns, search
from lab.csvs import text_of
from lab.files import write_whole
from lab.pisces import traffic
from lab.pisces.complexity import Change, Counted, changes, counted
from lab.pisces.network import PROGRAMS, published
from lab.pisces.offer import Traffic, offer
from lab.pisces.results import PiscesRow, mbit_per_s
from lab.pisces.switches import (
    CONTESTANTS,
    OVS_NAME,
    PORTS,
    Contestant,
    Running,
    Setting,
    optimise_option,
    running,
)
from lab.process import REPOSITORY, ChildError
from lab.rows.open_vswitch import OvsGroup

FILE = "pisces.csv"
SETS_FILE = "pisces-sets.csv"
COMPLEXITY_FILE, HEADERS_FILE = "pisces-complexity.csv", "pisces-headers.csv"
RAW = "raw"
PROBES_FILE = "pisces-probes.csv"
SETS = {"afxdp": 3, "afpacket": 2}
SIZES = {"afxdp": traffic.FRAMES_BYTES, "afpacket": traffic.FRAMES_BYTES[::3]}
"""AF_PACKET is the second kind of port: the smallest and the largest frame say what it does."""
QUICK_SIZES = traffic.FRAMES_BYTES[:1]
TURN_S = 0.1
"""Of the peak."""
BEYOND_WHAT_CAME = 1.2
SETTLE_PER_S, SETTLE_S = 20_000.0, 0.1
"""Every flow some times, so that caches know it."""
PEAK_TURNS, QUICK_TURNS = 9, 3
SHORT_S = 0.1
TRIAL_S = 5.0
"""Of 288 searches; `trial_s` of the experiment can say another."""
REPEATS_MAX, REPEATS_OF_ALL_S = 5, 30.0
"""As of `lab.bench.fanout`."""
_MEASURED = tuple(one.name for one in fields(PiscesRow) if one.type is float)
UP_S, OFFER_S = 2.0, 0.35
"""What starting a contestant takes, and an offer for its peak, about."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of turns."""

    number: int
    """Of the set, from 0."""
    port: str
    program: str
    frame_bytes: int
    effort: Effort = field(default_factory=lambda: Effort(TRIAL_S, SHORT_S))
    peak_turns: int = PEAK_TURNS

    @property
    def planned_s(self) -> float:
        """The approximate duration."""
        of_one_s = UP_S + self.effort.planned_s + self.peak_turns * OFFER_S
        return len(CONTESTANTS) * of_one_s

    def __str__(self) -> str:
        return f"{self.program}, {self.port}, {self.frame_bytes} bytes"


def cells(rounds: int = 0, trial_s: float = TRIAL_S, *, is_quick: bool = False) -> list[Cell]:
    """The cells to measure: a set of everything, then the next."""
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


@dataclass(frozen=True, slots=True)
class Probe:
    """One offered rate, and its result."""

    cell: Cell
    contestant: Contestant
    trial: Trial
    """Its step is `turn` where all are offered a fifth too much."""
    run: Run
    kernel_share: float
    noise: Noise

    @property
    def is_void(self) -> bool:
        """Others used the processors."""
        return self.noise.spoils(self.run.seconds)

    def columns(self) -> dict[str, object]:
        """Its columns in the raw samples."""
        how = ("effort", "peak_turns")
        cell = {name: value for name, value in asdict(self.cell).items() if name not in how}
        rate = {"step": self.trial.step, "offered_packets_per_s": self.trial.per_s}
        beside = {"kernel_share": self.kernel_share, **asdict(self.noise)}
        return {**cell, **asdict(self.contestant), **rate, **asdict(self.run), **beside}


@dataclass(slots=True)
class _Runner:
    """A contestant that has its turn, or stands."""

    cell: Cell
    up: Running
    traffic: Traffic
    probes: list[Probe]
    at_peak: list[float] = field(default_factory=list)
    _repeated_s: float = 0.0

    @property
    def contestant(self) -> Contestant:
        """Which."""
        return self.up.setting.contestant

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
        self.probes.append(Probe(self.cell, self.contestant, trial, run, share, noise))
        return self.probes[-1]


def run(folder: Path, todo: Sequence[Cell]) -> Failures:
    """Measures every cell; a cell that fails is returned and left out."""
    write_whole(folder / COMPLEXITY_FILE, csv_text(Counted, counted(_read)))
    write_whole(folder / HEADERS_FILE, csv_text(Change, changes(_read)))
    rows: list[PiscesRow] = []
    probes: list[Probe] = []
    failures: Failures = []
    if what := OvsGroup.lacks():
        # Alone ours says nothing.
        failures.append(f"this machine lacks {what}")
        todo = []
    for cell in each(todo, todo[0].planned_s if todo else 0.0, failures):
        try:
            rows += _measure(cell, probes)
        except ChildError as error:
            failures.append(f"{cell}: {error}")
        write_whole(folder / SETS_FILE, csv_text(PiscesRow, rows))
        write_whole(folder / RAW / PROBES_FILE, _probes_csv(probes))
    write_whole(folder / FILE, csv_text(PiscesRow, merged_rows(rows)))
    return failures


def _read(path: str) -> str:
    return (REPOSITORY / path).read_text()


def _probes_csv(probes: Sequence[Probe]) -> str:
    lines = [probe.columns() for probe in probes]
    names = list(lines[0]) if lines else []
    return text_of([names, *([str(value) for value in line.values()] for line in lines)])


def _measure(cell: Cell, probes: list[Probe]) -> list[PiscesRow]:
    with _runners(cell, probes) as runners:
        found = in_turns([(search(cell.effort), runner.offer) for runner in runners])
        for _ in range(cell.peak_turns):
            for runner, one in zip(runners, found, strict=True):
                trial = Trial(BEYOND_WHAT_CAME * max(one.peak_per_s, 1.0), TURN_S, "turn")
                runner.at_peak.append(runner.offer(trial).copies_per_s)
        pairs = [*zip(runners, found, strict=True)]
        return [_row(*pair, *_ovs_beside(pair[0], pairs)) for pair in pairs]


@contextlib.contextmanager
def _runners(cell: Cell, probes: list[Probe]) -> Iterator[list[_Runner]]:
    """All contestants, up and standing."""
    network = published()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="reprise-pisces-")))
        offered = Traffic(folder / "frames", cell.program, cell.frame_bytes)
        offered.write()
        runners = []
        for contestant in CONTESTANTS:
            setting = Setting(contestant, cell.port, cell.program, network)
            here = folder / str(contestant).replace(" ", "-")
            up = stack.enter_context(running(setting, here))
            offer(up, offered, SETTLE_PER_S, SETTLE_S)
            up.stand()
            runners.append(_Runner(cell, up, offered, probes))
        yield runners


def _ovs_beside(runner: _Runner, pairs: Sequence[tuple[_Runner, Found]]) -> tuple[_Runner, Found]:
    """Open vSwitch with flow caches as this one's."""
    caches = runner.contestant.flow_caches
    return next(
        pair
        for pair in pairs
        if pair[0].contestant.switch == OVS_NAME and pair[0].contestant.flow_caches == caches
    )


def _row(runner: _Runner, found: Found, ovs: _Runner, of_ovs: Found) -> PiscesRow:
    contestant, cell = runner.contestant, runner.cell
    options = optimise_option(contestant.variant, contestant.flow_caches)
    peak = median(runner.at_peak)
    decided = next((one for one in reversed(runner.probes) if one.run is found.decided), None)
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
        # Turn by turn: from one to the next the machine is as fast, from the first to the last not.
        peak_of_ovs=median(
            [ratio(*pair) for pair in zip(runner.at_peak, ovs.at_peak, strict=True)]
        ),
        trial_s=found.trial_s,
        late_share=found.late_share,
        kernel_share=decided.kernel_share if decided else float("nan"),
        disturbed=float(decided is not None and decided.is_void),
    )


def merged_rows(rows: Sequence[PiscesRow]) -> list[PiscesRow]:
    """Sets of the same become one row: the median of each measured column."""
    alike: dict[tuple[object, ...], list[PiscesRow]] = {}
    for row in rows:
        key = (row.port, row.program, row.frame_bytes, row.switch, row.variant, row.flow_caches)
        alike.setdefault(key, []).append(row)
    return [merged(sets, _MEASURED, ["sets"]) for _, sets in sorted(alike.items())]
