"""Forwarding of small frames between two ports, as a figure and a table. No I/O."""

import math
from collections.abc import Callable, Sequence

from lab.colours import BLUE, GREY
from lab.figures.charts import Bar, Bars
from lab.figures.fanout import HOW, Beside, peak_of, rate_of
from lab.figures.names import OVS, PIPELINES, colour_of, number
from lab.figures.table import Column, Table, tabulate
from lab.pisces.switches import KERNEL_NAME, LINUX_NAME, OVS_NAME, REPRISE_NAME
from lab.results.benchmarks import SwitchingRow

COLOURS = {
    KERNEL_NAME: colour_of("p4_replication"),
    REPRISE_NAME: BLUE,
    OVS_NAME: colour_of(OVS),
}
_LINUX = {"l2": "Linux, bridge", "l2l3": "Linux, routing"}
_NAMES = {
    KERNEL_NAME: "P4, kernel engine",
    REPRISE_NAME: "P4, native engine, AF_XDP",
    OVS_NAME: "Open vSwitch, AF_XDP",
}


def switch_name(row: SwitchingRow) -> str:
    if row.switch == LINUX_NAME:
        return _LINUX.get(row.program, row.switch)
    return _NAMES.get(row.switch, row.switch)


def figures(rows: Sequence[SwitchingRow]) -> list[Bars]:
    if not rows:
        return []
    n_bytes = rows[0].frame_bytes
    bars = [
        Bar(
            f"{PIPELINES.get(row.program, row.program)}: {switch_name(row)}",
            COLOURS.get(row.switch, GREY),
            row.packets_per_s_lossless / 1e3,
        )
        for row in rows
    ]
    return [
        Bars(
            key="switching",
            title=f"Packets of {n_bytes} bytes from one port to another, without loss",
            label="packets without loss (1000/s)",
            bars=tuple(bars),
            note="The kernel forwards on the processor that sends; on AF_XDP a switch has one to "
            "itself.",
        )
    ]


def where_time_goes(row: SwitchingRow) -> tuple[float, float, float]:
    """Returns how long a switch that spins takes for a packet, in nanoseconds.

    The three values are the time in all, in the kernel, and in the switch's own code. The shares
    come from the kernel's timer tick in the deciding trial. For other switches the values are NaN.
    """
    if row.packets_per_s_lossless <= 0 or row.switch not in (REPRISE_NAME, OVS_NAME):
        return (math.nan,) * 3
    whole_ns = 1e9 / row.packets_per_s_lossless
    return whole_ns, whole_ns * row.kernel_share, whole_ns * (1 - row.kernel_share)


def tables(rows: Sequence[SwitchingRow], beside: Beside) -> list[Table]:
    if not rows:
        return []
    ours = {row.program: row for row in rows if row.switch == KERNEL_NAME}

    def times(row: SwitchingRow) -> str:
        kernel = ours.get(row.program)
        return "" if kernel is None or kernel is row else number(beside(kernel, row), ".2f")

    def ns(place: int) -> Callable[[SwitchingRow], str]:
        return lambda row: number(where_time_goes(row)[place])

    columns: list[Column[SwitchingRow]] = [
        ("", "program", lambda row: PIPELINES.get(row.program, row.program)),
        ("", "switch", switch_name),
        ("packets/s", "lossless", rate_of),
        ("packets/s", "peak", peak_of),
        ("", "kernel engine beside it", times),
        ("ns a packet", "all", ns(0)),
        ("ns a packet", "kernel's", ns(1)),
        ("ns a packet", "its own", ns(2)),
        *HOW,
    ]
    return [
        tabulate(
            "table-switching",
            f"{rows[0].frame_bytes}-byte packets, {rows[0].flows} flows",
            columns,
            rows,
            "Medians over the sets, of ratios too. Linux has no access list of its own "
            "without a program for it. Nanoseconds are of what spins on a processor of its own: "
            "the time between two packets, and what the kernel's tick met of it in the kernel.",
        )
    ]
