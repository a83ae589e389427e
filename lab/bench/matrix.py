"""Which forwarders are measured at which fan-outs, how often; and the run over all of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.bench import turns
from lab.bench.cells import RAW, Failures, measured_sets
from lab.bench.fanout import FANOUTS, pushed
from lab.bench.forwarders import RAW as NO_FORWARDER
from lab.bench.forwarders import Forwarder, forwarders_of, running
from lab.bench.search import QUICK, TRIAL_S, Effort
from lab.bench.trials import Probe
from lab.bench.turns import Cell
from lab.results.benchmarks import FanoutRow
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


def all_forwarders(own: Sequence[str] = ()) -> list[Forwarder]:
    """Every row of the comparison, in the order of the tables; then an experiment's own."""
    rows = [one for name, row in ROWS.items() for one in forwarders_of(name, row.fanout)]
    rows += [one for name in own for one in forwarders_of(name, ROWS[name].variants)]
    return rows + [Forwarder(NO_FORWARDER, "", port, "spin") for port in ("afpacket", "afxdp")]


def _group(forwarder: Forwarder) -> tuple[str, str] | None:
    """What a forwarder is set against: what has the same kind of port and waits alike.

    The interpreter and sockets are beyond a comparison that needs a third digit.
    """
    is_slow = forwarder.engine == "interpreter" or forwarder.port in ("", "udp")
    if is_slow or forwarder.row == NO_FORWARDER or not forwarder.kind.takes_turns:
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
    due = [row for row in ROWS.values() if row.fanout and not row.is_optional]
    return measured_sets(
        (folder, "fanout"),
        FanoutRow,
        todo,
        lambda cell, probes: _measured(cell, folder / RAW, probes),
        lacking=[row.lacks() for row in due],
    )


def _measured(cell: Cell, raw: Path, probes: list[Probe]) -> list[FanoutRow]:
    if cell.forwarders[0].row != NO_FORWARDER:
        return turns.measure(cell, raw, probes)
    with running(cell.forwarders[0], 1) as (site, _):
        return [pushed(cell.forwarders[0], site, SFU_CPU)]
