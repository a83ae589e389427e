"""The packets a second that each switch carries: contestants in turns, set by set.

All contestants of a program, a kind of port and a frame size are up, and one runs while the others
are stopped (`lab.bench.turns` says why). Each set has new processes. In a set every contestant's
peak is estimated, then each is offered a fifth more, in turns, and the median of the rates that
came is its peak. Then the highest lossless rate is searched for, step by step in turns. A ratio of
peaks is the median of the turns' ratios, a ratio of lossless rates is that of the set. A row's
ratio is the median of its sets'.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from itertools import product
from pathlib import Path

from lab.bench.experiment import Failures, csv_text, each, median, merged
from lab.bench.fanout import BEYOND_WHAT_CAME, Search, peak_of, search_steps
from lab.bench.load import Run
from lab.bench.names import ratio
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
SETTLE_PER_S, SETTLE_S = 20_000.0, 0.1
"""Every flow some times, so that caches know it."""
PEAK_TURNS, QUICK_TURNS = 9, 3
TRIES, QUICK_TRIES = 8, 2
_MEASURED = tuple(one.name for one in fields(PiscesRow) if one.type is float)
UP_S, OFFER_S, FIND_OFFERS = 2.0, 0.35, 6
"""What starting a contestant takes, and an offer, about; how many there are besides."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of turns."""

    number: int
    """Of the set, from 0."""
    port: str
    program: str
    frame_bytes: int
    tries: int = TRIES
    """Steps about the limit."""
    peak_turns: int = PEAK_TURNS

    @property
    def planned_s(self) -> float:
        """The approximate duration."""
        offers = FIND_OFFERS + self.peak_turns + self.tries
        return len(CONTESTANTS) * (UP_S + offers * OFFER_S)

    def __str__(self) -> str:
        return f"{self.program}, {self.port}, {self.frame_bytes} bytes"


def cells(*, is_quick: bool = False) -> list[Cell]:
    """The cells to measure: a set of everything, then the next."""
    if is_quick:
        return [
            Cell(0, "afxdp", program, size, QUICK_TRIES, QUICK_TURNS)
            for program, size in product(PROGRAMS, QUICK_SIZES)
        ]
    return [
        Cell(number, port, program, size)
        for number in range(max(SETS.values()))
        for port in PORTS
        if number < SETS[port]
        for program, size in product(PROGRAMS, SIZES[port])
    ]


@dataclass(frozen=True, slots=True)
class Probe:
    """One offered rate, and its result."""

    cell: Cell
    contestant: Contestant
    step: str
    """`find`, `peak` or `search`."""
    offered_packets_per_s: float
    run: Run

    def columns(self) -> dict[str, object]:
        """Its columns in the raw samples."""
        how = ("tries", "peak_turns")
        cell = {name: value for name, value in asdict(self.cell).items() if name not in how}
        rate = {"step": self.step, "offered_packets_per_s": self.offered_packets_per_s}
        return {**cell, **asdict(self.contestant), **rate, **asdict(self.run)}


@dataclass(slots=True)
class _Runner:
    """A contestant that has its turn, or stands."""

    cell: Cell
    up: Running
    traffic: Traffic
    probes: list[Probe]
    peak: float = 1.0
    at_peak: list[float] = field(default_factory=list)
    lossless: float = 0.0

    @property
    def contestant(self) -> Contestant:
        """Which."""
        return self.up.setting.contestant

    def offer(self, packets_per_s: float, step: str) -> Run:
        """It runs as long as packets are offered."""
        self.up.go_on()
        try:
            run = offer(self.up, self.traffic, packets_per_s, TURN_S)
            if run.loss < 0.0:
                # Packets of an earlier offer came: a switch that stood may have kept some.
                run = offer(self.up, self.traffic, packets_per_s, TURN_S)
        finally:
            self.up.stand()
        self.probes.append(Probe(self.cell, self.contestant, step, packets_per_s, run))
        if run.is_lossless:
            self.lossless = max(self.lossless, run.copies_per_s)
        return run

    def find_peak(self) -> None:
        """The approximate peak: the turns then offer a little more."""
        self.peak = max(peak_of(lambda rate: self.offer(rate, "find")), 1.0)


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
        for runner in runners:
            runner.find_peak()
        for _ in range(cell.peak_turns):
            for runner in runners:
                came = runner.offer(BEYOND_WHAT_CAME * runner.peak, "peak").copies_per_s
                runner.at_peak.append(came)
        _search(runners, cell.tries)
        return [_row(runner, _ovs_beside(runner, runners)) for runner in runners]


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


def _search(runners: Sequence[_Runner], tries: int) -> None:
    """A step of each one's search after the other's."""
    searches: list[tuple[_Runner, Search, float]] = []
    for runner in runners:
        steps = search_steps(tries)
        searches.append((runner, steps, next(steps)))
    while searches:
        left = []
        for runner, steps, part in searches:
            is_lossless = runner.offer(part * runner.peak, "search").is_lossless
            with contextlib.suppress(StopIteration):
                left.append((runner, steps, steps.send(is_lossless)))
        searches = left


def _ovs_beside(runner: _Runner, runners: Sequence[_Runner]) -> _Runner:
    """Open vSwitch with flow caches as this one's."""
    caches = runner.contestant.flow_caches
    return next(
        one
        for one in runners
        if one.contestant.switch == OVS_NAME and one.contestant.flow_caches == caches
    )


def _row(runner: _Runner, ovs: _Runner) -> PiscesRow:
    contestant, cell = runner.contestant, runner.cell
    options = optimise_option(contestant.variant, contestant.flow_caches)
    peak = median(runner.at_peak)
    return PiscesRow(
        **asdict(contestant),
        program=cell.program,
        optimisations="" if contestant.switch == OVS_NAME else options.replace(",", " "),
        port=cell.port,
        wait=PORTS[cell.port],
        flows=runner.traffic.n_flows,
        frame_bytes=cell.frame_bytes,
        sets=1,
        packets_per_s_lossless=runner.lossless,
        packets_per_s_peak=peak,
        mbit_per_s_lossless=mbit_per_s(runner.lossless, cell.frame_bytes),
        mbit_per_s_peak=mbit_per_s(peak, cell.frame_bytes),
        lossless_of_ovs=ratio(runner.lossless, ovs.lossless),
        # Turn by turn: from one to the next the machine is as fast, from the first to the last not.
        peak_of_ovs=median(
            [ratio(*pair) for pair in zip(runner.at_peak, ovs.at_peak, strict=True)]
        ),
    )


def merged_rows(rows: Sequence[PiscesRow]) -> list[PiscesRow]:
    """Sets of the same become one row: the median of each measured column."""
    alike: dict[tuple[object, ...], list[PiscesRow]] = {}
    for row in rows:
        key = (row.port, row.program, row.frame_bytes, row.switch, row.variant, row.flow_caches)
        alike.setdefault(key, []).append(row)
    return [merged(sets, _MEASURED, ["sets"]) for _, sets in sorted(alike.items())]
