"""Which forwarders are measured at which fan-outs, how often; and the run over all of them."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.bench import turns
from lab.bench.experiment import Failures, csv_text, each
from lab.bench.fanout import FANOUTS, Probe, measure, median_rows
from lab.bench.forwarders import BMV2_PROGRAMS, SFU_PROGRAMS, Forwarder, there_is
from lab.bench.forwarders import RAW as NO_FORWARDER
from lab.bench.results import FanoutRow
from lab.csvs import text_of
from lab.files import write_whole
from lab.process import ChildError
from lab.rows import ROWS

COMPARED_FANOUT = 64
"""The fan-out at which forwarders are set against each other, in turns."""
SETS = {"spin": 3, "sleep": 4}
"""How often, by how they wait: how long it takes to wake differs more."""
FANOUTS_SLEEPING = (1, 64)
FANOUTS_SLOW = (1, 16, 64)
"""Interpreted, or on UDP sockets."""
FANOUTS_QUICK = (COMPARED_FANOUT,)
CELL_S = 5.0
"""What one forwarder takes at one fan-out, about."""


RAW = "raw"
"""Where raw samples go in a benchmark's folder; what is derived from them stands above."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A user's selection of the run; other settings are those of `make bench`."""

    only: tuple[str, ...] = ()
    fanouts: tuple[int, ...] = ()
    rounds: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement."""

    round: int
    forwarders: tuple[Forwarder, ...]
    """Several take turns."""
    fanout: int

    @property
    def planned_s(self) -> float:
        """The approximate duration."""
        n = len(self.forwarders)
        return CELL_S if n == 1 else turns.CELL_S * n

    def __str__(self) -> str:
        names = " beside ".join(str(forwarder) for forwarder in self.forwarders)
        return f"{names}, {self.fanout} copies"


def all_forwarders() -> list[Forwarder]:
    """Every row of the comparison, in the order of the tables."""
    rows = [
        Forwarder(name, engine, port, wait)
        for name in SFU_PROGRAMS
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
        Forwarder("pktswitch_bypass", "", port, wait)
        for port, wait in itertools.product(("afpacket", "afxdp"), ("spin", "sleep"))
    ]
    rows += [Forwarder("pktswitch_sockets", "", "udp_batched", wait) for wait in ("spin", "sleep")]
    rows += [
        Forwarder("ovs_group", "", "system", "sleep"),
        Forwarder("ovs_group", "", "afxdp", "spin"),
    ]
    rows += [Forwarder(name, "one processor", "afpacket", "sleep") for name in BMV2_PROGRAMS]
    rows += [Forwarder(NO_FORWARDER, "", port, "spin") for port in ("afpacket", "afxdp")]
    return [row for row in rows if there_is(row.row)]


def _group(forwarder: Forwarder) -> tuple[str, str] | None:
    """What a forwarder is set against: what has the same kind of port and waits alike.

    The interpreter, sockets and BMv2 are beyond a comparison that needs a third digit.
    """
    is_ours = forwarder.row in SFU_PROGRAMS and forwarder.engine == "native"
    if (
        not (is_ours or forwarder.row in ("pktswitch_bypass", "ovs_group"))
        or forwarder.port == "udp"
    ):
        return None
    # Open vSwitch's system port is an AF_PACKET socket.
    port = "afpacket" if forwarder.port == "system" else forwarder.port
    return (port, forwarder.wait)


def cells(choice: Choice, *, is_quick: bool = False) -> list[Cell]:
    """What is measured: forwarders alone, then those that are set against each other, in turns.

    Pushing has no fan-out. Sleeping and slow forwarders are measured at fewer.
    """
    chosen = [
        forwarder
        for forwarder in all_forwarders()
        if not choice.only or any(word in str(forwarder) for word in choice.only)
    ]
    alone, groups = [], dict[tuple[str, str], list[Forwarder]]()
    for forwarder in chosen:
        group = _group(forwarder)
        for fanout in _fanouts(forwarder, choice, is_quick=is_quick):
            if fanout == COMPARED_FANOUT and group is not None:
                groups.setdefault(group, []).append(forwarder)
            else:
                rounds = range(choice.rounds or 1)
                alone += [Cell(number, (forwarder,), fanout) for number in rounds]
    compared = [
        Cell(number, tuple(members), COMPARED_FANOUT)
        for (_, wait), members in groups.items()
        for number in range(choice.rounds or (1 if is_quick else SETS[wait]))
    ]
    return [*alone, *compared]


def _fanouts(forwarder: Forwarder, choice: Choice, *, is_quick: bool) -> tuple[int, ...]:
    if forwarder.row == NO_FORWARDER:
        return (1,)
    if choice.fanouts:
        return choice.fanouts
    if is_quick:
        return FANOUTS_QUICK
    if forwarder.wait == "sleep":
        return FANOUTS_SLEEPING
    is_slow = forwarder.engine == "interpreter" or forwarder.port.startswith("udp")
    return FANOUTS_SLOW if is_slow else FANOUTS


def run(folder: Path, todo: Sequence[Cell]) -> Failures:
    """Measures every cell; a cell that fails is returned and left out."""
    raw = folder / RAW
    raw.mkdir(exist_ok=True)
    rows: list[FanoutRow] = []
    probes: list[Probe] = []
    failures: Failures = [why for row in ("ovs_group",) if (why := ROWS[row].lacks())]
    for cell in each(todo, CELL_S, failures):
        kept = turns.kept_in(raw, cell.round, cell.fanout)
        try:
            if len(cell.forwarders) == 1:
                forwarder = cell.forwarders[0]
                rows.append(measure(forwarder, cell.fanout, kept(forwarder)))
            else:
                rows += turns.measure(cell.forwarders, cell.fanout, kept)
        except ChildError as error:
            failures.append(f"{cell}: {error}")
        probes += [probe for one in cell.forwarders for probe in kept(one).probes]
        write_whole(folder / "fanout-rounds.csv", csv_text(FanoutRow, rows))
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
