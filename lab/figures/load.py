"""Overload, priorities and sockets against bypass as figures and tables. Pure."""

from collections.abc import Sequence

from lab.colours import GREY
from lab.figures.charts import Axis, Bar, Bars, Line, Lines, finite
from lab.figures.names import PORTS, WAITS, colour_of, count, marker_of, name_of, number
from lab.figures.table import Table
from lab.results.benchmarks import OverloadRow, PktswitchRow, PriorityRow

STREAM_MBPS = 4.0
PKTSWITCH_OVERHEAD_PCT = 76.0
PKTSWITCH_DELAY_PCT = 89.0
Curve = tuple[str, str, str, str]


def curves(rows: Sequence[OverloadRow], fanout: int) -> dict[Curve, list[OverloadRow]]:
    """The rows of each forwarder at one fan-out, by what is offered."""
    found: dict[Curve, list[OverloadRow]] = {}
    for row in sorted(rows, key=lambda it: it.offered_over_capacity):
        if row.fanout == fanout:
            key = (row.row, row.engine, row.port, row.wait)
            found.setdefault(key, []).append(row)
    return found


def curve_name(curve: Curve) -> str:
    forwarder, engine, port, wait = curve
    # Whose processor it is tells the kernel's curves apart.
    where = f", {WAITS[wait]}" if port == "xdp" else ""
    return f"{name_of(forwarder, engine)}, {PORTS.get(port, port)}{where}"


def kept(curve: Sequence[OverloadRow]) -> float:
    """The share of the peak that remains at the highest offered rate."""
    return max(curve, key=lambda row: row.offered_over_capacity).of_peak


def _curve_line(curve: Curve, points: Sequence[tuple[float, float]]) -> Line:
    xs, ys = finite(points)
    forwarder, engine, port, wait = curve
    # One colour a forwarder: its ports differ in the marker's filling.
    is_weak = engine == "interpreter" or port in {"afpacket", "system"} or wait == "shared"
    colour, marker = colour_of(forwarder), marker_of(forwarder)
    marker = {"interpreter": "P", "kernel": "*"}.get(engine, marker)
    turn = 1 if engine == "kernel" else 0
    return Line(curve_name(curve), colour, xs, ys, marker, is_weak, turn)


def overload_figures(rows: Sequence[OverloadRow]) -> list[Lines]:
    """The rate, then the delay, of each fan-out."""
    charts = []
    for fanout in sorted({row.fanout for row in rows}):
        found = curves(rows, fanout)
        ticks = tuple(sorted({row.offered_over_capacity for row in rows if row.fanout == fanout}))
        shown = tuple(tick for tick in ticks if tick in {0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0})
        x = Axis("offered, in capacities (ratio)", is_log=True, ticks=shown)
        rates = [
            _curve_line(key, [(row.offered_over_capacity, row.copies_per_s) for row in curve])
            for key, curve in found.items()
        ]
        delays = [
            _curve_line(key, [(row.offered_over_capacity, row.last_copy_p99_us) for row in curve])
            for key, curve in found.items()
        ]
        left = ", ".join(f"{curve_name(key)} {kept(curve):.0%}" for key, curve in found.items())
        charts += [
            Lines(
                key=f"overload-rate-{fanout}",
                title=f"Overload: copies a second, {fanout} copies of each packet",
                x=x,
                y=Axis("copies that came (1/s)", starts_at_zero=True),
                lines=tuple(rates),
                note=f"Of the peak stays at the most that is offered, the median of pairs: {left}.",
            ),
            Lines(
                key=f"overload-delay-{fanout}",
                title=f"Overload: delay of the last copy, {fanout} copies of each packet",
                x=x,
                y=Axis("99th percentile of the last copy (µs)", is_log=True),
                lines=tuple(delays),
                note="Of packets that were forwarded: a queue that is full bounds the wait in it.",
            ),
        ]
    return charts


def overload_tables(rows: Sequence[OverloadRow], priorities: Sequence[PriorityRow]) -> list[Table]:
    """The share of the peak that remains, and equal viewers; then the urgent stream."""
    made = []
    if rows:
        made.append(_overload_table(rows))
    if priorities:
        made.append(_priority_table(priorities))
    return made


def _overload_table(rows: Sequence[OverloadRow]) -> Table:
    lines = []
    for fanout in sorted({row.fanout for row in rows}):
        for key, curve in curves(rows, fanout).items():
            counted = [row.vanished for row in curve if row.vanished >= 0]
            lines.append(
                (
                    curve_name(key),
                    str(fanout),
                    count(max(row.copies_per_s for row in curve)),
                    number(kept(curve), ".0%"),
                    number(max(row.loss for row in curve), ".0%"),
                    number(max(row.viewers_spread_pct for row in curve), ".2f"),
                    f"{sum(counted):.0f}" if counted else "does not count",
                )
            )
    return Table(
        key="table-overload",
        title="Overload: what stays",
        groups=(("", 7),),
        columns=(
            "forwarder",
            "copies",
            "peak, copies/s",
            "of it at the most offered",
            "largest loss",
            "viewers differ by, %",
            "lost uncounted",
        ),
        rows=tuple(lines),
        note="Lost uncounted: packets and copies that neither came out nor stand in any counter.",
    )


def _priority_table(rows: Sequence[PriorityRow]) -> Table:
    return Table(
        key="table-priority",
        title="One packet in ten is urgent",
        groups=(("", 5),),
        columns=("forwarder", "copies", "offered, capacities", "urgent lost", "others lost"),
        rows=tuple(
            (
                f"{name_of(row.row, row.engine)}, {PORTS.get(row.port, row.port)}",
                str(row.fanout),
                f"{row.offered_over_capacity:g}",
                f"{row.audio_loss:.2%}",
                f"{row.video_loss:.2%}",
            )
            for row in rows
        ),
        note="`standard_metadata.priority` of a program says which packets go first.",
    )


def pktswitch_figures(rows: Sequence[PktswitchRow]) -> list[Bars]:
    if not rows:
        return []
    columns = (
        ("overhead", "overhead_reduction_pct", PKTSWITCH_OVERHEAD_PCT, "processor time a copy"),
        ("delay", "delay_reduction_pct", PKTSWITCH_DELAY_PCT, "median delay of the last copy"),
    )
    charts = []
    for key, column, published, what in columns:
        bars = [Bar("pktswitch, netmap", GREY, published)]
        bars += [
            Bar(
                f"{name_of(row.row, row.engine)}, "
                f"{row.fanout} cop{'ies' if row.fanout > 1 else 'y'}",
                colour_of(row.row),
                max(getattr(row, column), 0.0),
            )
            for row in rows
        ]
        charts.append(
            Bars(
                key=f"pktswitch-{key}",
                title=f"Sockets against kernel bypass: less {what}",
                label=f"{what}, less by (%)",
                bars=tuple(bars),
                note="UDP sockets against AF_XDP, both sleeping, or against XDP in the kernel (the "
                "relay by hand, the kernel engine); a bar of 0 is no gain.",
            )
        )
    return charts


def pktswitch_tables(rows: Sequence[PktswitchRow]) -> list[Table]:
    if not rows:
        return []
    lines = [
        (
            f"{name_of(row.row, row.engine)}, {WAITS.get(row.wait, row.wait)}",
            str(row.fanout),
            *(
                text
                for before, after, less in (
                    (row.overhead_sockets_ns, row.overhead_bypass_ns, row.overhead_reduction_pct),
                    (row.delay_sockets_us, row.delay_bypass_us, row.delay_reduction_pct),
                    (
                        row.busy_delay_sockets_us,
                        row.busy_delay_bypass_us,
                        row.busy_delay_reduction_pct,
                    ),
                )
                for text in (number(before), number(after), number(-less, "+.0f"))
            ),
        )
        for row in rows
    ]
    three = ("sockets", "beyond", "change, %")
    return [
        Table(
            key="table-pktswitch",
            title="Sockets against kernel bypass",
            groups=(
                ("", 2),
                ("processor time a copy, ns", 3),
                ("median last copy, µs", 3),
                ("mean copy when busy, µs", 3),
            ),
            columns=("forwarder", "copies", *three, *three, *three),
            rows=tuple(lines),
            note="Beyond: AF_XDP, or XDP in the kernel. pktswitch on netmap: -76 % overhead, "
            "-89 % delay; no absolute values were published. "
            "`docs/performance.md` says why ours differ.",
        )
    ]
