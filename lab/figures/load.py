"""Makes figures and tables of overload, priorities, and sockets against kernel bypass. No I/O."""

from collections.abc import Callable, Sequence
from itertools import groupby

from lab.colours import GREY
from lab.figures.charts import Axis, Bar, Bars, Line, Lines, finite
from lab.figures.names import PORTS, WAITS, colour_of, count, marker_of, name_of, number
from lab.figures.table import Column, Table, tabulate
from lab.results.benchmarks import OverloadRow, PktswitchRow, PriorityRow
from lab.results.statistics import by_columns

PKTSWITCH_OVERHEAD_PCT = 76.0
PKTSWITCH_DELAY_PCT = 89.0


def curves(rows: Sequence[OverloadRow]) -> list[list[OverloadRow]]:
    """The rows of each forwarder at each fan-out, ordered by the offered rate."""
    ordered = sorted(rows, key=lambda row: (row.fanout, row.offered_over_capacity))
    return [*by_columns(ordered, ("fanout", "row", "engine", "port", "wait")).values()]


def curve_name(row: OverloadRow) -> str:
    # Forwarders in the kernel are distinguished by the processor on which they forward.
    where = f", {WAITS[row.wait]}" if row.port == "xdp" else ""
    return f"{name_of(row.row, row.engine)}, {PORTS.get(row.port, row.port)}{where}"


def kept(curve: Sequence[OverloadRow]) -> float:
    """The share of the peak that remains at the highest offered rate."""
    return max(curve, key=lambda row: row.offered_over_capacity).of_peak


def _curve_line(curve: Sequence[OverloadRow], column: str) -> Line:
    xs, ys = finite([(row.offered_over_capacity, getattr(row, column)) for row in curve])
    of = curve[0]
    # A forwarder has one colour; its ports differ in whether the marker is filled.
    is_weak = of.engine == "interpreter" or of.port in {"afpacket", "system"} or of.wait == "shared"
    marker = {"interpreter": "P", "kernel": "*"}.get(of.engine, marker_of(of.row))
    turn = 1 if of.engine == "kernel" else 0
    return Line(curve_name(of), colour_of(of.row), xs, ys, marker, is_weak, turn)


def overload_figures(rows: Sequence[OverloadRow]) -> list[Lines]:
    charts = []
    for fanout, group in groupby(curves(rows), key=lambda curve: curve[0].fanout):
        found = [*group]
        offered = {row.offered_over_capacity for curve in found for row in curve}
        ticks = tuple(sorted(offered & {0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0}))
        x = Axis("offered, in capacities (ratio)", is_log=True, ticks=ticks)
        left = ", ".join(f"{curve_name(curve[0])} {kept(curve):.0%}" for curve in found)
        charts += [
            Lines(
                key=f"overload-rate-{fanout}",
                title=f"Overload: copies a second, {fanout} copies of each packet",
                x=x,
                y=Axis("copies that came (1/s)", starts_at_zero=True),
                lines=tuple(_curve_line(curve, "copies_per_s") for curve in found),
                note=f"Of the peak stays at the most that is offered, the median of pairs: {left}.",
            ),
            Lines(
                key=f"overload-delay-{fanout}",
                title=f"Overload: delay of the last copy, {fanout} copies of each packet",
                x=x,
                y=Axis("99th percentile of the last copy (µs)", is_log=True),
                lines=tuple(_curve_line(curve, "last_copy_p99_us") for curve in found),
                note="Of packets that were forwarded: a queue that is full bounds the wait in it.",
            ),
        ]
    return charts


def overload_tables(rows: Sequence[OverloadRow], priorities: Sequence[PriorityRow]) -> list[Table]:
    """A table of overload with the share of the peak that remains, and one of the urgent stream."""
    made = [_overload_table(rows)] if rows else []
    return [*made, *([_priority_table(priorities)] if priorities else [])]


def _overload_table(rows: Sequence[OverloadRow]) -> Table:
    def uncounted(curve: Sequence[OverloadRow]) -> str:
        counted = [row.vanished for row in curve if row.vanished >= 0]
        return f"{sum(counted):.0f}" if counted else "does not count"

    def most(column: str, form: str) -> Callable[[Sequence[OverloadRow]], str]:
        return lambda curve: number(max(getattr(row, column) for row in curve), form)

    columns: list[Column[list[OverloadRow]]] = [
        ("", "forwarder", lambda curve: curve_name(curve[0])),
        ("", "copies", lambda curve: str(curve[0].fanout)),
        ("", "peak, copies/s", lambda curve: count(max(row.copies_per_s for row in curve))),
        ("", "of it at the most offered", lambda curve: number(kept(curve), ".0%")),
        ("", "largest loss", most("loss", ".0%")),
        ("", "viewers differ by, %", most("viewers_spread_pct", ".2f")),
        ("", "lost uncounted", uncounted),
    ]
    return tabulate(
        "table-overload",
        "Overload: what stays",
        columns,
        curves(rows),
        "Lost uncounted: packets and copies that neither came out nor stand in any counter.",
    )


def _priority_table(rows: Sequence[PriorityRow]) -> Table:
    columns: list[Column[PriorityRow]] = [
        (
            "",
            "forwarder",
            lambda row: f"{name_of(row.row, row.engine)}, {PORTS.get(row.port, row.port)}",
        ),
        ("", "copies", lambda row: str(row.fanout)),
        ("", "offered, capacities", lambda row: f"{row.offered_over_capacity:g}"),
        ("", "urgent lost", lambda row: f"{row.audio_loss:.2%}"),
        ("", "others lost", lambda row: f"{row.video_loss:.2%}"),
    ]
    return tabulate(
        "table-priority",
        "One packet in ten is urgent",
        columns,
        rows,
        "`standard_metadata.priority` of a program says which packets go first.",
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

    def value(column: str, form: str = "", sign: int = 1) -> Callable[[PktswitchRow], str]:
        return lambda row: number(sign * getattr(row, column), form)

    columns: list[Column[PktswitchRow]] = [
        (
            "",
            "forwarder",
            lambda row: f"{name_of(row.row, row.engine)}, {WAITS.get(row.wait, row.wait)}",
        ),
        ("", "copies", lambda row: str(row.fanout)),
    ]
    for group, what, unit in (
        ("processor time a copy, ns", "overhead", "ns"),
        ("median last copy, µs", "delay", "us"),
        ("mean copy when busy, µs", "busy_delay", "us"),
    ):
        columns += [
            (group, "sockets", value(f"{what}_sockets_{unit}")),
            (group, "beyond", value(f"{what}_bypass_{unit}")),
            (group, "change, %", value(f"{what}_reduction_pct", "+.0f", -1)),
        ]
    return [
        tabulate(
            "table-pktswitch",
            "Sockets against kernel bypass",
            columns,
            rows,
            "Beyond: AF_XDP, or XDP in the kernel. pktswitch on netmap: -76 % overhead, "
            "-89 % delay; no absolute values were published. "
            "`docs/performance.md` says why ours differ.",
        )
    ]
