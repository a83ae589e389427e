"""Scaling over processors, as a figure and a table. No I/O."""

from collections.abc import Sequence

from lab.figures.charts import Axis, Line, Lines, finite
from lab.figures.fanout import HOW
from lab.figures.names import RELAY, colour_of, count, full_name, marker_of, number
from lab.figures.table import Column, Table, tabulate
from lab.results.benchmarks import ScalingRow
from lab.results.statistics import by_columns, ratio

Key = tuple[str, str, str, str]


def _key(row: ScalingRow) -> Key:
    return (row.row, row.engine, row.port, row.wait)


def figures(rows: Sequence[ScalingRow]) -> list[Lines]:
    if not rows:
        return []
    lines = []
    for found in by_columns(rows, ("row", "engine", "port", "wait")).values():
        points = [(float(row.processors), row.copies_per_s_lossless) for row in found]
        of = found[0]
        colour, marker = colour_of(of.row), marker_of(of.row)
        lines.append(Line(full_name(of), colour, *finite(points), marker, of.engine == "native"))
    ticks = tuple(float(n) for n in sorted({row.processors for row in rows}))
    return [
        Lines(
            key="scaling",
            title="Copies a second without loss on more processors",
            x=Axis("processors, or workers (number)", ticks=ticks),
            y=Axis("copies without loss (1/s)", starts_at_zero=True),
            lines=tuple(lines),
            note="All streams together. On AF_XDP each worker's load has a processor of its own.",
        )
    ]


def tables(rows: Sequence[ScalingRow]) -> list[Table]:
    if not rows:
        return []
    alone = {_key(row): row for row in rows if row.processors == 1}
    relay = {row.processors: row for row in rows if row.row == RELAY}

    def times(row: ScalingRow, peer: ScalingRow | None) -> str:
        if peer is None or peer is row:
            return ""
        return number(ratio(row.copies_per_s_lossless, peer.copies_per_s_lossless), ".2f")

    columns: list[Column[ScalingRow]] = [
        ("", "forwarder", full_name),
        ("", "processors", lambda row: str(row.processors)),
        ("copies/s", "lossless", lambda row: count(row.copies_per_s_lossless)),
        (
            "copies/s",
            "peak",
            lambda row: f"{'≥ ' * bool(row.is_peak_least)}{count(row.copies_per_s_peak)}",
        ),
        ("times", "those of one", lambda row: times(row, alone.get(_key(row)))),
        ("times", "the relay's", lambda row: times(row, relay.get(row.processors))),
        *HOW,
    ]
    return [
        tabulate(
            "table-scaling",
            f"Copies a second on more processors, {rows[0].fanout} copies of each packet",
            columns,
            rows,
            "Medians over the sets. A peak with ≥ is all that the loads could offer.",
        )
    ]
