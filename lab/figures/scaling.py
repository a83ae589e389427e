"""More processors as a figure and a table. Pure."""

from collections.abc import Sequence

from lab.figures.charts import Axis, Line, Lines, finite
from lab.figures.fanout import how_of
from lab.figures.names import RELAY, colour_of, count, kind_name, marker_of, name_of, number
from lab.figures.table import Table
from lab.results.benchmarks import ScalingRow
from lab.results.statistics import ratio

Key = tuple[str, str, str, str]


def _key(row: ScalingRow) -> Key:
    return (row.row, row.engine, row.port, row.wait)


def _name(key: Key) -> str:
    return f"{name_of(*key[:2])}: {kind_name((key[2], key[3]))}"


def figures(rows: Sequence[ScalingRow]) -> list[Lines]:
    if not rows:
        return []
    lines = []
    for key in dict.fromkeys(_key(row) for row in rows):
        points = [
            (float(row.processors), row.copies_per_s_lossless) for row in rows if _key(row) == key
        ]
        colour, marker = colour_of(key[0]), marker_of(key[0])
        lines.append(Line(_name(key), colour, *finite(points), marker, key[1] == "native"))
    ticks = tuple(float(n) for n in sorted({row.processors for row in rows}))
    return [
        Lines(
            key="scaling",
            title="Copies a second without loss on more processors",
            x=Axis("processors, or workers (number)", ticks=ticks),
            y=Axis("copies without loss (1/s)", starts_at_zero=True),
            lines=tuple(lines),
            note="All streams together. A worker on AF_XDP has a processor for its load besides.",
        )
    ]


def tables(rows: Sequence[ScalingRow]) -> list[Table]:
    """Every row, beside one processor and beside the relay."""
    if not rows:
        return []
    of = {(_key(row), row.processors): row for row in rows}
    relay = {row.processors: row for row in rows if row.row == RELAY}
    lines = []
    for row in rows:
        one, peer = of.get((_key(row), 1)), relay.get(row.processors)
        shares = [
            number(ratio(row.copies_per_s_lossless, other.copies_per_s_lossless), ".2f")
            if other is not None and other is not row
            else ""
            for other in (one, peer)
        ]
        lines.append(
            (
                _name(_key(row)),
                str(row.processors),
                count(row.copies_per_s_lossless),
                f"{'≥ ' * bool(row.is_peak_least)}{count(row.copies_per_s_peak)}",
                *shares,
                *how_of(row),
            )
        )
    return [
        Table(
            key="table-scaling",
            title=f"Copies a second on more processors, {rows[0].fanout} copies of each packet",
            groups=(("", 2), ("copies/s", 2), ("times", 2), ("how", 4)),
            columns=(
                "forwarder",
                "processors",
                "lossless",
                "peak",
                "those of one",
                "the relay's",
                "bound by",
                "late, %",
                "trial, s",
                "sets",
            ),
            rows=tuple(lines),
            note="Medians over the sets. A peak with ≥ is all that the loads could offer.",
        )
    ]
