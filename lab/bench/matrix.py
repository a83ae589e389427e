"""Which forwarders are measured at which fan-outs, how often; and the run over all of them."""

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.bench.experiment import Failures, csv_text, each
from lab.bench.fanout import FANOUTS, Kept, Probe, measure, median_rows
from lab.bench.forwarders import PROGRAMS, Forwarder, bmv2_forwarders, has_open_vswitch
from lab.bench.results import FanoutRow
from lab.csvs import text_of
from lab.process import ChildError
from lab.study.folder import write_whole

COMPARED_FANOUT = 64
"""The fan-out at which forwarders are set against each other; it is measured in three rounds."""
COMPARED_ROUNDS = 3
FANOUTS_SLEEPING = (1, 64)
FANOUTS_SLOW = (1, 16, 64)
"""Interpreted, or on UDP sockets."""
FANOUTS_QUICK = (COMPARED_FANOUT,)
CELL_S = 5.7
"""What one forwarder takes at one fan-out, about."""


RAW = "raw"
"""Where raw samples go in a benchmark's folder; what is derived from them stands above."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person may narrow the run to; what is not given is as `make bench` has it."""

    only: tuple[str, ...] = ()
    fanouts: tuple[int, ...] = ()
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement."""

    round: int
    forwarder: Forwarder
    fanout: int

    def __str__(self) -> str:
        return f"{self.forwarder}, {self.fanout} copies"


def all_forwarders() -> list[Forwarder]:
    """Every row of the comparison, in the order of the tables."""
    rows = [
        Forwarder(name, engine, port, wait)
        for name in PROGRAMS
        for engine, port, wait in (
            ("interpreter", "afpacket", "spin"),
            ("native", "afpacket", "spin"),
            ("native", "afpacket", "sleep"),
            ("native", "afxdp", "spin"),
            ("native", "afxdp", "sleep"),
            ("native", "udp", "spin"),
        )
    ]
    rows += [
        Forwarder("relay", "", port, wait)
        for port, wait in itertools.product(("afpacket", "afxdp", "udp"), ("spin", "sleep"))
    ]
    if has_open_vswitch():
        rows += [Forwarder("ovs", "", "system", "sleep"), Forwarder("ovs", "", "afxdp", "spin")]
    rows += bmv2_forwarders()
    return [*rows, Forwarder("raw", "", "afpacket", "spin"), Forwarder("raw", "", "afxdp", "spin")]


def cells(choice: Choice, *, is_quick: bool = False) -> list[Cell]:
    """What is measured, round by round; pushing has no fan-out, so it stands once a round.

    Sleeping forwarders are measured at fewer fan-outs, and only the compared one is repeated.
    """
    chosen = [
        forwarder
        for forwarder in all_forwarders()
        if not choice.only or any(word in str(forwarder) for word in choice.only)
    ]
    n_rounds = choice.rounds or (1 if is_quick else COMPARED_ROUNDS)
    return [
        Cell(number, forwarder, fanout)
        for number in range(n_rounds)
        for forwarder in chosen
        for fanout in _fanouts(forwarder, choice, number, is_quick=is_quick)
    ]


def _fanouts(
    forwarder: Forwarder, choice: Choice, number: int, *, is_quick: bool
) -> tuple[int, ...]:
    if forwarder.forwarder == "raw":
        return (1,) if number == 0 or choice.rounds else ()
    if choice.fanouts:
        return choice.fanouts
    if is_quick:
        return FANOUTS_QUICK
    if number == 0 or choice.rounds:
        if forwarder.wait == "sleep":
            return FANOUTS_SLEEPING
        is_slow = forwarder.engine == "interpreter" or forwarder.port == "udp"
        return FANOUTS_SLOW if is_slow else FANOUTS
    # None of these is in a comparison that needs a third digit.
    sleeps_on_xdp = (forwarder.port, forwarder.wait) == ("afxdp", "sleep")
    is_once = forwarder.engine == "interpreter" or forwarder.port == "udp" or sleeps_on_xdp
    return () if is_once else (COMPARED_FANOUT,)


def run(folder: Path, todo: Sequence[Cell]) -> Failures:
    """Measures every cell, round by round; what fails is returned and left out."""
    raw = folder / RAW
    raw.mkdir(exist_ok=True)
    rows: list[FanoutRow] = []
    probes: list[Probe] = []
    failures: Failures = [] if has_open_vswitch() else ["Open vSwitch: it is not installed"]
    for cell in each(todo, CELL_S, failures):
        name = "-".join(filter(None, asdict(cell.forwarder).values()))
        kept = Kept(raw / f"delays-{name}-{cell.fanout}-round{cell.round + 1}.csv")
        try:
            rows.append(measure(cell.forwarder, cell.fanout, kept))
        except ChildError as error:
            failures.append(f"{cell}: {error}")
        probes += kept.probes
        write_whole(raw / "fanout-rounds.csv", csv_text(FanoutRow, rows))
        write_whole(raw / "fanout-probes.csv", _probes_csv(probes))
    write_whole(folder / "fanout.csv", csv_text(FanoutRow, median_rows(rows)))
    return failures


def _probes_csv(probes: Sequence[Probe]) -> str:
    lines = [probe.cells() for probe in probes]
    names = list(lines[0]) if lines else []
    return text_of([names, *([str(value) for value in line.values()] for line in lines)])


def names() -> Sequence[str]:
    """The forwarders' names, as `--only` has them."""
    return [str(forwarder) for forwarder in all_forwarders()]
