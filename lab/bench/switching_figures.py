"""Small frames between two ports as figures and a table. Pure."""

from collections.abc import Sequence

from lab.bench.charts import Bar, Bars
from lab.bench.names import OVS, count, number, ratio
from lab.bench.results import SwitchingRow
from lab.colours import BLUE, GREY
from lab.looks import colour_of
from lab.page import Table
from lab.pisces.switches import KERNEL_NAME, LINUX_NAME, OVS_NAME, REPRISE_NAME

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
    """For people."""
    if row.switch == LINUX_NAME:
        return _LINUX.get(row.program, row.switch)
    return _NAMES.get(row.switch, row.switch)


def figures(rows: Sequence[SwitchingRow]) -> list[Bars]:
    """A bar each, program by program."""
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


def tables(rows: Sequence[SwitchingRow]) -> list[Table]:
    """Every row, beside the kernel engine."""
    if not rows:
        return []
    ours = {row.program: row for row in rows if row.switch == KERNEL_NAME}
    lines = []
    for row in rows:
        kernel = ours.get(row.program)
        times = (
            number(ratio(kernel.packets_per_s_lossless, row.packets_per_s_lossless), ".2f")
            if kernel is not None and kernel is not row
            else ""
        )
        lines.append(
            (
                PROGRAMS.get(row.program, row.program),
                switch_name(row),
                count(row.packets_per_s_lossless),
                count(row.packets_per_s_peak),
                times,
            )
        )
    return [
        Table(
            key="table-switching",
            title=f"{rows[0].frame_bytes}-byte packets, {rows[0].flows} flows",
            groups=(("", 2), ("packets/s", 2), ("", 1)),
            columns=("program", "switch", "lossless", "peak", "kernel engine beside it"),
            rows=tuple(lines),
            note="Linux has no access list of its own without a program for it.",
        )
    ]
