"""Figures and tables of fan-out: rates, delays, processor time, by kind of forwarder. No I/O."""

import math
from collections.abc import Callable, Sequence

from lab.bench.forwarders import RAW
from lab.bench.matrix import COMPARED_FANOUT as COMPARED
from lab.figures.charts import Axis, Level, Line, Lines, finite
from lab.figures.names import (
    KINDS,
    OURS,
    OVS,
    PKTSWITCH,
    colour_of,
    count,
    full_name,
    kind_name,
    kind_of,
    marker_of,
    name_of,
    number,
)
from lab.figures.table import Column, Table, tabulate
from lab.results.benchmarks import ALONE, BY_PLACE, FanoutRow, ScalingRow, SwitchingRow
from lab.results.statistics import by_columns, median, ratio
from lab.rows import ROWS

Value = Callable[[FanoutRow], float]
Searched = FanoutRow | SwitchingRow


class Beside:
    """The ratio of one forwarder's value, such as its rate, to another forwarder's value.

    Trials of two forwarders alternate, in several sets; the result is the median of the sets'
    ratios. Within a set the machine's speed is the same for both forwarders. From set to set it
    changes. If the two forwarders have no set in common, one of them was measured alone; then the
    result is the ratio of their medians.
    """

    def __init__(self, rounds: Sequence[Searched]) -> None:
        self._rounds: dict[tuple[object, ...], list[Searched]] = {}
        if rounds:
            self._rounds = by_columns(rounds, rounds[0].names)

    def __call__(self, ours: Searched, theirs: Searched, column: str = "") -> float:
        """Returns ours / theirs for a column, by default the rates; NaN if one was not measured."""
        column = column or ours.measured[0]
        of_ours, of_theirs = self._of(ours), self._of(theirs)
        sets = of_ours.keys() & of_theirs.keys()
        if sets:
            pairs = [(of_ours[number], of_theirs[number]) for number in sorted(sets)]
            return median([ratio(*(getattr(one, column) for one in pair)) for pair in pairs])
        return ratio(
            *(
                median([getattr(one, column) for one in rounds])
                for rounds in (self._all(ours), self._all(theirs))
            )
        )

    def _all(self, row: Searched) -> list[Searched]:
        key = tuple(getattr(row, column) for column in row.names)
        return self._rounds.get(key, [row])

    def _of(self, row: Searched) -> dict[int, Searched]:
        """A forwarder's rows by set.

        Rows of older files do not have the set's number. If such a file has several rows for a
        forwarder, the forwarder was compared with others, and the nth row belongs to the nth set.
        """
        rounds = self._all(row)
        if all(one.set == BY_PLACE for one in rounds):
            return dict(enumerate(rounds)) if len(rounds) > 1 else {}
        return {one.set: one for one in rounds if one.set != ALONE}


def figures(rows: Sequence[FanoutRow], beside: Beside) -> list[Lines]:
    """Figures of rates for every kind of port, then of delays, then of processor time."""
    by_kind = [(kind, of_kind(rows, kind)) for kind in KINDS]
    kinds = [(kind, found) for kind, found in by_kind if any(r.row in OURS for r in found)]
    return [
        *(_rates(kind, found, rows, beside) for kind, found in kinds),
        *(_delays(kind, found, beside) for kind, found in kinds),
        *(_costs(kind, found) for kind, found in kinds if kind[1] == "sleep" or kind[0] != "udp"),
    ]


def of_kind(rows: Sequence[FanoutRow], kind: tuple[str, str]) -> list[FanoutRow]:
    return [row for row in rows if kind_of(row.port, row.wait) == kind and row.row != "raw"]


def row_of(
    rows: Sequence[FanoutRow], forwarder: str, engine: str, fanout: int = COMPARED
) -> FanoutRow | None:
    wanted = (forwarder, engine, fanout)
    return next((row for row in rows if (row.row, row.engine, row.fanout) == wanted), None)


def _lines(
    rows: Sequence[FanoutRow], value: Value, suffix: str = "", *, is_dashed: bool = False
) -> list[Line]:
    lines = []
    for forwarder in dict.fromkeys([*ROWS, *(row.row for row in rows)]):
        for engine in ("native", "", "interpreter"):
            found = [row for row in rows if (row.row, row.engine) == (forwarder, engine)]
            xs, ys = finite([(row.fanout, value(row)) for row in found])
            if xs:
                label = name_of(forwarder, engine) + suffix
                weak = is_dashed or engine == "interpreter"
                colour, marker = colour_of(forwarder), marker_of(forwarder)
                lines.append(Line(label, colour, xs, ys, marker, weak))
    return lines


def axis_of(rows: Sequence[FanoutRow]) -> Axis:
    ticks = tuple(float(n) for n in sorted({row.fanout for row in rows}))
    return Axis("copies of each packet (number)", is_log=True, ticks=ticks)


def _rates(
    kind: tuple[str, str],
    rows: Sequence[FanoutRow],
    everything: Sequence[FanoutRow],
    beside: Beside,
) -> Lines:
    limit = [
        Level(name_of(RAW), colour_of(RAW), row.copies_per_s_peak)
        for row in everything
        if row.row == "raw" and row.port == kind[0] and kind[1] == "spin"
    ]
    return Lines(
        key=f"fanout-rate-{kind[0]}-{kind[1]}",
        title=f"Copies a second without loss: {kind_name(kind)}",
        x=axis_of(rows),
        y=Axis("copies without loss (1/s)", starts_at_zero=True),
        lines=tuple(_lines(rows, lambda row: row.copies_per_s_lossless)),
        levels=tuple(limit[:1]),
        note=f"{_reading_of_rates(rows, beside)}{_how(rows)}",
    )


def _how(rows: Sequence[FanoutRow]) -> str:
    """Says how long the trials were, and how many sets each fan-out had; empty if unknown."""
    known = [row for row in rows if not math.isnan(row.trial_s)]
    ways: dict[tuple[float, int], set[int]] = {}
    for row in known:
        ways.setdefault((row.trial_s, row.sets), set()).add(row.fanout)
    said = [
        f"at {', '.join(map(str, sorted(fanouts)))} copies {sets} {'set' if sets == 1 else 'sets'} "
        f"with deciding trials of {seconds:g} s"
        for (seconds, sets), fanouts in sorted(ways.items())
    ]
    return f" Points: {'; '.join(said)}." if said else ""


def _reading_of_rates(rows: Sequence[FanoutRow], beside: Beside) -> str:
    sentences = []
    for forwarder in OURS:
        ours = row_of(rows, forwarder, "native")
        if ours is None:
            continue
        times = [
            f"{number(beside(ours, peer), '.2f')} times that of {name_of(name)}"
            for name in (PKTSWITCH, OVS)
            if (peer := row_of(rows, name, "")) is not None
        ]
        sentences.append(
            f"{name_of(forwarder)}, at {COMPARED} copies: {count(ours.copies_per_s_lossless)} a "
            f"second{', ' + ' and '.join(times) if times else ''}."
        )
    return " ".join(sentences) or f"Not measured at {COMPARED} copies."


def _delays(kind: tuple[str, str], rows: Sequence[FanoutRow], beside: Beside) -> Lines:
    native = [row for row in rows if row.engine != "interpreter"]
    lines = [
        *_lines(native, lambda row: row.last_copy_p50_us, ", last"),
        *_lines(native, lambda row: row.first_copy_p50_us, ", first", is_dashed=True),
    ]
    return Lines(
        key=f"fanout-delay-{kind[0]}-{kind[1]}",
        title=f"Delay of the first and the last copy: {kind_name(kind)}",
        x=axis_of(native),
        y=Axis("median delay at 360 packets/s (µs)", is_log=True),
        lines=tuple(lines),
        note=_reading_of_delays(native, beside),
    )


def _reading_of_delays(rows: Sequence[FanoutRow], beside: Beside) -> str:
    sentences = []
    peer = row_of(rows, PKTSWITCH, "")
    for forwarder in OURS:
        ours = row_of(rows, forwarder, "native")
        if ours is None:
            continue
        text = (
            f"{name_of(forwarder)}, at {COMPARED} copies: first "
            f"{number(ours.first_copy_p50_us)} µs "
            f"(p99 {number(ours.first_copy_p99_us)}), last {number(ours.last_copy_p50_us)} µs "
            f"(p99 {number(ours.last_copy_p99_us)})"
        )
        if peer is not None:
            first = beside(ours, peer, "first_copy_p50_us")
            last = beside(ours, peer, "last_copy_p50_us")
            text += f"; {number(first, '.2f')} and {number(last, '.2f')} times pktswitch's medians"
        sentences.append(f"{text}.")
    return " ".join(sentences) or f"Not measured at {COMPARED} copies."


def _costs(kind: tuple[str, str], rows: Sequence[FanoutRow]) -> Lines:
    note = "Processor time of the forwarder's process at its lossless rate."
    if kind[1] == "spin":
        note += " It spins, so this is one core's time over the rate."
    return Lines(
        key=f"fanout-cpu-{kind[0]}-{kind[1]}",
        title=f"Processor time a copy: {kind_name(kind)}",
        x=axis_of(rows),
        y=Axis("processor time a copy (ns)", is_log=True),
        lines=tuple(_lines(rows, lambda row: row.cpu_ns_per_copy)),
        note=note,
    )


def tables(rows: Sequence[FanoutRow], beside: Beside) -> list[Table]:
    """A table of the compared fan-out with the ratios to the peers, then a table of every row."""
    is_compared = any(row.fanout == COMPARED for row in rows)
    compared = [compared_table(rows, beside)] if is_compared else []
    return [*compared, _whole_table(rows)] if rows else []


def rate_of(row: Searched) -> str:
    """The rate without loss; a dash if every trial lost a copy."""
    rate = getattr(row, row.measured[0])
    return count(rate) if rate > 0 else "-"


def peak_of(row: Searched) -> str:
    """The peak; marked with ≥ if it is only a lower bound."""
    return f"{'≥ ' * bool(row.is_peak_least)}{count(getattr(row, row.measured[1]))}"


DELAY = "delay at 360 packets/s"
SPEED: tuple[Column[FanoutRow], ...] = (
    ("rate", "lossless, copies/s", rate_of),
    ("rate", "peak, copies/s", peak_of),
    (DELAY, "first p50, µs", lambda row: number(row.first_copy_p50_us)),
    (DELAY, "last p50, µs", lambda row: number(row.last_copy_p50_us)),
    (DELAY, "last p99, µs", lambda row: number(row.last_copy_p99_us)),
    ("", "CPU, ns/copy", lambda row: number(row.cpu_ns_per_copy)),
)
HOW: tuple[Column[Searched | ScalingRow], ...] = (
    ("how", "bound by", lambda row: row.bound_by),
    ("how", "late, %", lambda row: number(100 * row.late_share)),
    ("how", "trial, s", lambda row: number(row.trial_s)),
    ("how", "sets", lambda row: str(row.sets)),
)
"""Columns on how a rate was found: what limits it, the share of late copies, the duration of the
deciding trial, the number of sets."""


def compared_table(rows: Sequence[FanoutRow], beside: Beside) -> Table:
    """Every forwarder at the compared fan-out, with the ratios to the peers of its kind."""
    compared = [row for row in rows if row.fanout == COMPARED and row.row != "raw"]
    others = (kind_of(row.port, row.wait) for row in rows if row.row != "raw")

    def to(name: str) -> Callable[[FanoutRow], str]:
        def times(row: FanoutRow) -> str:
            peer = row_of(of_kind(compared, kind_of(row.port, row.wait)), name, "")
            return "" if peer is None or row.row == peer.row else number(beside(row, peer), ".2f")

        return times

    columns: list[Column[FanoutRow]] = [
        ("", "forwarder", full_name),
        *SPEED,
        ("ratio", "of pktswitch's rate", to(PKTSWITCH)),
        ("ratio", "of Open vSwitch's", to(OVS)),
    ]
    return tabulate(
        "table-fanout-compared",
        f"{COMPARED} copies of each packet, like beside like",
        columns,
        [row for kind in dict.fromkeys([*KINDS, *others]) for row in of_kind(compared, kind)],
        "Medians over the sets, of ratios too; of what was measured alone, the ratio of the "
        "medians. A peak with ≥ is all that the load could offer. Open vSwitch's system port is an "
        "AF_PACKET socket that sleeps.",
    )


def _whole_table(rows: Sequence[FanoutRow]) -> Table:
    columns: list[Column[FanoutRow]] = [
        ("", "forwarder", full_name),
        ("", "copies", lambda row: str(row.fanout)),
        *SPEED,
        *HOW,
    ]
    return tabulate(
        "table-fanout",
        "Every forwarder at every fan-out",
        columns,
        rows,
        "A dash: no rate was without loss, or the forwarder has no such column. Bound by: "
        "what failed at the next higher rate, loss or lateness, or the load could send no more. "
        "Late: of the copies of the trial that decided, those that came after its last packet.",
    )
