"""Small frames between two ports as figures and a table. Pure."""

import math
from collections.abc import Sequence

from lab.colours import BLUE, GREY
from lab.figures.charts import Bar, Bars
from lab.figures.fanout import Beside, how_of, peak_of, rate_of
from lab.figures.names import OVS, colour_of, number
from lab.figures.table import Table
from lab.pisces.switches import KERNEL_NAME, LINUX_NAME, OVS_NAME, REPRISE_NAME
from lab.results.benchmarks import SwitchingRow

PROGRAMS = {"l2": "L2", "l2l3": "L2L3", "l2l3_acl": "L2L3-ACL"}
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
            f"{PROGRAMS.get(row.program, row.program)}: {switch_name(row)}",
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
    """Nanoseconds a packet of one that spins: all, the kernel's part, its own code's.

    The shares are those of the kernel's tick in the trial that decided.
    """
    if row.packets_per_s_lossless <= 0:
        return (math.nan,) * 3
    whole_ns = 1e9 / row.packets_per_s_lossless
    return whole_ns, whole_ns * row.kernel_share, whole_ns * (1 - row.kernel_share)


def tables(rows: Sequence[SwitchingRow], beside: Beside) -> list[Table]:
    if not rows:
        return []
    ours = {row.program: row for row in rows if row.switch == KERNEL_NAME}
    lines = []
    for row in rows:
        kernel = ours.get(row.program)
        times = (
            number(beside(kernel, row), ".2f") if kernel is not None and kernel is not row else ""
        )
        spins = row.switch in (REPRISE_NAME, OVS_NAME)
        ns = where_time_goes(row) if spins else (math.nan,) * 3
        lines.append(
            (
                PROGRAMS.get(row.program, row.program),
                switch_name(row),
                rate_of(row),
                peak_of(row),
                times,
                *(number(value) for value in ns),
                *how_of(row),
            )
        )
    return [
        Table(
            key="table-switching",
            title=f"{rows[0].frame_bytes}-byte packets, {rows[0].flows} flows",
            groups=(("", 2), ("packets/s", 2), ("", 1), ("ns a packet", 3), ("how", 4)),
            columns=(
                "program",
                "switch",
                "lossless",
                "peak",
                "kernel engine beside it",
                "all",
                "kernel's",
                "its own",
                "bound by",
                "late, %",
                "trial, s",
                "sets",
            ),
            rows=tuple(lines),
            note="Medians over the sets, of ratios too. Linux has no access list of its own "
            "without a program for it. Nanoseconds are of what spins on a processor of its own: "
            "the time between two packets, and what the kernel's tick met of it in the kernel.",
        )
    ]
