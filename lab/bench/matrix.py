"""Which forwarders are measured at which fan-outs, how often; and the run over all of them."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.bench import turns
from lab.bench.experiment import Failures, csv_text, each
from lab.bench.fanout import FANOUTS, Kept, Probe, median_rows, pushed
from lab.bench.forwarders import BMV2_PROGRAMS, SFU_PROGRAMS, Forwarder, running, there_is
from lab.bench.forwarders import RAW as NO_FORWARDER
from lab.bench.results import FanoutRow
from lab.bench.search import FULL, QUICK, TRIAL_S, Effort
from lab.bench.turns import Set
from lab.csvs import text_of
from lab.files import write_whole
from lab.process import ChildError
from lab.rows import ROWS
from lab.sites import SFU_CPU

COMPARED_FANOUT = 64
"""The fan-out at which forwarders are set against each other, in turns."""
SETS = {"spin": 3, "sleep": 3}
"""How often at that fan-out, by how they wait."""
CURVE_PART = 6
"""At the other fan-outs, which are points of a curve, trials are so much shorter, in one set."""
POINT_PART = 3
"""Trials of what sleeps, of sockets, the interpreter and BMv2 are so much shorter: in three sets a
whole one."""
FANOUTS_SLEEPING = (1, 64)
FANOUTS_SLOW = (1, 16, 64)
"""Interpreted, or on UDP sockets."""
FANOUTS_QUICK = (COMPARED_FANOUT,)
PUSH_CELL_S = 4.0


_KNOWN = {
    *SFU_PROGRAMS,
    *BMV2_PROGRAMS,
    "pktswitch_bypass",
    "pktswitch_sockets",
    "ovs_group",
    NO_FORWARDER,
}
"""Rows of the project; others are of an experiment's own file, and compared with their like."""
RAW = "raw"
"""Where raw samples go in a benchmark's folder; what is derived from them stands above."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A user's selection of the run; other settings are those of `make bench`."""

    only: tuple[str, ...] = ()
    fanouts: tuple[int, ...] = ()
    rounds: int = 0
    trial_s: float = TRIAL_S
    rows: tuple[str, ...] = ()
    """Of an experiment's own file, beside the project's."""

    def effort(self, members: Sequence[Forwarder], fanout: int, *, is_quick: bool) -> Effort:
        """How long rates are searched for at a fan-out."""
        if is_quick:
            return QUICK
        if fanout != COMPARED_FANOUT and fanout not in self.fanouts:
            return Effort(self.trial_s / CURVE_PART)
        is_fast = members[0].wait == "spin" and _group(members[0]) is not None
        return Effort(self.trial_s if is_fast else self.trial_s / POINT_PART)


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement."""

    round: int
    forwarders: tuple[Forwarder, ...]
    """Several take turns."""
    fanout: int
    effort: Effort = FULL

    @property
    def planned_s(self) -> float:
        """The approximate duration."""
        if self.forwarders[0].row == NO_FORWARDER:
            return PUSH_CELL_S
        return turns.planned_s(self.effort) * len(self.forwarders)

    def __str__(self) -> str:
        names = " beside ".join(str(forwarder) for forwarder in self.forwarders)
        return f"{names}, {self.fanout} copies"


def all_forwarders(own: Sequence[str] = ()) -> list[Forwarder]:
    """Every row of the comparison, in the order of the tables; then an experiment's own."""
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
    rows += [
        Forwarder(name, variant.engine, variant.port, variant.wait)
        for name in own
        for variant in ROWS[name].variants
    ]
    rows += [Forwarder(NO_FORWARDER, "", port, "spin") for port in ("afpacket", "afxdp")]
    return [row for row in rows if there_is(row.row)]


def _group(forwarder: Forwarder) -> tuple[str, str] | None:
    """What a forwarder is set against: what has the same kind of port and waits alike.

    The interpreter, sockets and BMv2 are beyond a comparison that needs a third digit.
    """
    is_ours = forwarder.row in SFU_PROGRAMS and forwarder.engine == "native"
    is_peer = forwarder.row in ("pktswitch_bypass", "ovs_group") or forwarder.row not in _KNOWN
    if not (is_ours or is_peer) or forwarder.port in ("", "udp"):
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
        for forwarder in all_forwarders(choice.rows)
        if not choice.only or any(word in str(forwarder) for word in choice.only)
    ]
    groups: dict[tuple[int, object], list[Forwarder]] = {}
    for forwarder in chosen:
        # One that is compared with none is a group of its own.
        group = _group(forwarder) or forwarder
        for fanout in _fanouts(forwarder, choice, is_quick=is_quick):
            groups.setdefault((fanout, group), []).append(forwarder)
    todo = [
        Cell(number, tuple(members), fanout, choice.effort(members, fanout, is_quick=is_quick))
        for (fanout, _), members in groups.items()
        for number in range(_n_sets(members, fanout, choice, is_quick=is_quick))
    ]
    # Sets of the same lie apart in time: what the machine does for a minute meets one of them.
    return sorted(todo, key=lambda cell: cell.round)


def _n_sets(members: Sequence[Forwarder], fanout: int, choice: Choice, *, is_quick: bool) -> int:
    if members[0].row == NO_FORWARDER:
        return 1
    if choice.rounds or is_quick:
        return choice.rounds or 1
    return SETS.get(members[0].wait, 1) if fanout == COMPARED_FANOUT else 1


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
    for cell in each(todo, todo[0].planned_s if todo else 0.0, failures):
        of = Set(cell.fanout, cell.round, effort=cell.effort)
        kept = turns.kept_in(raw, of)
        try:
            rows += _measured(cell, of, kept)
        except ChildError as error:
            failures.append(f"{cell}: {error}")
        probes += [probe for one in cell.forwarders for probe in kept(one).probes]
        write_whole(folder / "fanout-rounds.csv", csv_text(FanoutRow, rows))
        write_whole(raw / "fanout-probes.csv", probes_csv(probes))
    write_whole(folder / "fanout.csv", csv_text(FanoutRow, median_rows(rows)))
    return failures


def _measured(cell: Cell, of: Set, kept: Callable[[Forwarder], Kept]) -> list[FanoutRow]:
    if cell.forwarders[0].row != NO_FORWARDER:
        return turns.measure(cell.forwarders, of, kept)
    with running(cell.forwarders[0], 1) as (site, _):
        return [pushed(cell.forwarders[0], site, SFU_CPU)]


def probes_csv(probes: Sequence[Probe]) -> str:
    """Raw samples: every trial."""
    lines = [probe.cells() for probe in probes]
    names = list(lines[0]) if lines else []
    return text_of([names, *([str(value) for value in line.values()] for line in lines)])


def names() -> Sequence[str]:
    """The forwarders' names, as `--only` has them."""
    return [str(forwarder) for forwarder in all_forwarders()]
