"""Says which forwarders are measured at which fan-outs, and how often; and measures them all."""

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
"""The fan-out at which forwarders are compared with each other, in alternating trials."""
SETS = {"spin": 3, "sleep": 3}
"""The number of sets of trials at `COMPARED_FANOUT`, by how the forwarders wait."""
CURVE_PART = 6
"""Fan-outs other than `COMPARED_FANOUT` are only points of a curve.

Each gets one set of trials, and the trials are shorter by this factor.
"""
POINT_PART = 3
"""Trials of forwarders that sleep, of sockets, of the interpreter and of BMv2 are shorter by this
factor, so that three sets take as long as one full-length trial."""
FANOUTS_SLEEPING = (1, 64)
FANOUTS_SLOW = (1, 16, 64)
"""The fan-outs at which the interpreter, and forwarders on UDP sockets, are measured."""
FANOUTS_QUICK = (COMPARED_FANOUT,)


@dataclass(frozen=True, slots=True)
class Choice:
    """The user's selection for this run. All other settings are those of `make bench`."""

    only: tuple[str, ...] = ()
    fanouts: tuple[int, ...] = ()
    rounds: int = 0
    trial_s: float = TRIAL_S
    rows: tuple[str, ...] = ()
    """Rows (SFUs) of the experiment's own file, measured beside the project's rows."""

    def effort(self, members: Sequence[Forwarder], fanout: int, *, is_quick: bool) -> Effort:
        """How long the trials are at a fan-out."""
        if is_quick:
            return QUICK
        if fanout != COMPARED_FANOUT and fanout not in self.fanouts:
            return Effort(self.trial_s / CURVE_PART)
        is_fast = members[0].wait == "spin" and _group(members[0]) is not None
        return Effort(self.trial_s if is_fast else self.trial_s / POINT_PART)


def all_forwarders(own: Sequence[str] = ()) -> list[Forwarder]:
    """The project's forwarders, those of an experiment's `own` rows, and two that push frames."""
    rows = [one for name, row in ROWS.items() for one in forwarders_of(name, row.fanout)]
    rows += [one for name in own for one in forwarders_of(name, ROWS[name].variants)]
    return rows + [Forwarder(NO_FORWARDER, "", port, "spin") for port in ("afpacket", "afxdp")]


def _group(forwarder: Forwarder) -> tuple[str, str] | None:
    """Returns the group in which a forwarder is compared: its kind of port and its way of waiting.

    Returns None if the forwarder is measured alone: the interpreter and sockets are so much slower
    that alternating trials would not improve the comparison.
    """
    is_slow = forwarder.engine == "interpreter" or forwarder.port in ("", "udp")
    if is_slow or forwarder.row == NO_FORWARDER or not forwarder.kind.takes_turns:
        return None
    # Open vSwitch's system port is an AF_PACKET socket.
    port = "afpacket" if forwarder.port == "system" else forwarder.port
    return (port, forwarder.wait)


def cells(choice: Choice, *, is_quick: bool = False) -> list[Cell]:
    """The cells to measure.

    Forwarders of one group share a cell, in which their trials alternate. Every other forwarder has
    a separate cell. Sleeping and slow forwarders are measured at fewer fan-outs.
    """
    chosen = [
        forwarder
        for forwarder in all_forwarders(choice.rows)
        if not choice.only or any(word in str(forwarder) for word in choice.only)
    ]
    groups: dict[tuple[int, object], list[Forwarder]] = {}
    for forwarder in chosen:
        # A forwarder that is compared with no other is a group of its own.
        group = _group(forwarder) or forwarder
        for fanout in _fanouts(forwarder, choice, is_quick=is_quick):
            groups.setdefault((fanout, group), []).append(forwarder)
    todo = [
        Cell(number, tuple(members), fanout, choice.effort(members, fanout, is_quick=is_quick))
        for (fanout, _), members in groups.items()
        for number in range(_n_sets(members, fanout, choice, is_quick=is_quick))
    ]
    # The sets of one group are measured at different times, so that a disturbance that lasts a
    # minute spoils only one of the sets.
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
    """Measures every cell. A cell that fails is left out, and its failure is returned."""
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
