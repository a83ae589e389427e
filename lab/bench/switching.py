"""Small frames from one port to another: the kernel engine beside what else forwards them.

Linux' bridge and its routing, Open vSwitch, and the native engine on AF_XDP, with the network of
PISCES' comparison. They take turns (`lab.bench.turns`).
"""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.bench.experiment import Failures, csv_text, each
from lab.bench.fanout import Search, peak_of, search_steps
from lab.bench.load import Run
from lab.bench.results import SwitchingRow
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
TURN_S = 0.1
SETTLE_PER_S, SETTLE_S = 20_000.0, 0.1
TRIES, QUICK_TRIES = 8, 2
UP_S, OFFER_S, FIND_OFFERS = 2.0, 0.35, 8
"""What starting one takes, and an offer, about; how many there are besides."""
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
    tries: int = TRIES

    @property
    def planned_s(self) -> float:
        """The approximate duration."""
        return len(self.contestants) * (UP_S + (FIND_OFFERS + self.tries) * OFFER_S)

    def __str__(self) -> str:
        return f"{self.program}, {FRAME_BYTES} bytes"


def cells(*, is_quick: bool = False) -> list[Cell]:
    """A cell a program; Open vSwitch where there is one."""
    has_ovs = not OvsGroup.lacks()
    tries = QUICK_TRIES if is_quick else TRIES
    return [
        Cell(program, tuple(one for one in those if one != OVS or has_ovs), tries)
        for program, those in PROGRAMS.items()
    ]


@dataclass(slots=True)
class _Runner:
    """A contestant that has its turn, or stands."""

    up: Running
    traffic: Traffic
    peak: float = 1.0
    lossless: float = 0.0

    def offer(self, packets_per_s: float) -> Run:
        """It runs as long as packets are offered."""
        self.up.go_on()
        try:
            run = offer(self.up, self.traffic, packets_per_s, TURN_S)
            if run.loss < 0.0:
                # Packets of an earlier offer came: a switch that stood may have kept some.
                run = offer(self.up, self.traffic, packets_per_s, TURN_S)
        finally:
            self.up.stand()
        if run.is_lossless:
            self.lossless = max(self.lossless, run.copies_per_s)
        return run


def run(folder: Path, todo: Sequence[Cell]) -> Failures:
    """Measures every cell into `switching.csv`; a cell that fails is returned and left out."""
    rows: list[SwitchingRow] = []
    failures: Failures = [why for why in (OvsGroup.lacks(),) if why]
    for cell in each(todo, todo[0].planned_s if todo else 0.0, failures):
        try:
            rows += measure(cell)
        except ChildError as error:
            failures.append(f"{cell}: {error}")
    write_whole(folder / FILE, csv_text(SwitchingRow, rows))
    return failures


def measure(cell: Cell) -> list[SwitchingRow]:
    """One cell."""
    with _runners(cell) as runners:
        for runner in runners:
            runner.peak = max(peak_of(runner.offer), 1.0)
        searches: list[tuple[_Runner, Search, float]] = []
        for runner in runners:
            steps = search_steps(cell.tries)
            searches.append((runner, steps, next(steps)))
        while searches:
            left = []
            for runner, steps, part in searches:
                is_lossless = runner.offer(part * runner.peak).is_lossless
                with contextlib.suppress(StopIteration):
                    left.append((runner, steps, steps.send(is_lossless)))
            searches = left
        return [_row(cell, runner) for runner in runners]


def _row(cell: Cell, runner: _Runner) -> SwitchingRow:
    return SwitchingRow(
        program=cell.program,
        switch=runner.up.setting.contestant.switch,
        frame_bytes=FRAME_BYTES,
        flows=runner.traffic.n_flows,
        packets_per_s_lossless=runner.lossless,
        packets_per_s_peak=max(runner.peak, runner.lossless),
    )


@contextlib.contextmanager
def _runners(cell: Cell) -> Iterator[list[_Runner]]:
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
            runners.append(_Runner(up, offered))
        yield runners
