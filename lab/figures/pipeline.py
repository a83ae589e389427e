"""Figures and tables of what pipelines cost without ports, by optimisation and by size. No I/O."""

from collections.abc import Sequence

from lab.colours import GREY
from lab.figures.charts import Axis, Bar, Bars, Line, Lines, finite
from lab.figures.names import PIPELINE_COLOURS, PIPELINE_MARKERS, PIPELINES, number
from lab.figures.table import Table
from lab.results.benchmarks import GrowthRow, PipelineRow
from lab.results.statistics import ratio

WHOLE = "whole"
GROWS = {
    "entries": "entries of the largest table (number)",
    "groups": "groups (number)",
    "viewers": "viewers of the group (number)",
    "packet_size_bytes": "packet size (bytes)",
}
PISCES = (
    ("post-pipeline editing, whole checksums", 737.4),
    ("inline editing", -45.4),
    ("incremental checksum", -234.5),
    ("action specialisation", -9.2),
    ("parser specialisation", -7.6),
    ("action coalescing", -14.8),
    ("all", 425.8),
)
"""PISCES' steps in cycles a packet. The first and the last number are totals, the others are
differences."""


def workloads(rows: Sequence[PipelineRow]) -> list[tuple[str, int]]:
    """The pairs of a program and a number of flows, in order of their first row."""
    return list(dict.fromkeys((row.program, row.flows) for row in rows))


def of_workload(rows: Sequence[PipelineRow], workload: tuple[str, int]) -> list[PipelineRow]:
    """The rows of a program with a number of flows."""
    return [row for row in rows if (row.program, row.flows) == workload]


def with_role(rows: Sequence[PipelineRow], role: str, part: str = WHOLE) -> PipelineRow | None:
    return next((row for row in rows if role in row.roles and row.part == part), None)


def steps(rows: Sequence[PipelineRow]) -> list[tuple[str, PipelineRow]]:
    """The row without optimisations, then a row for each optimisation added to those before it."""
    naive = with_role(rows, "naive")
    found = [("naive", naive)] if naive is not None else []
    numbered = []
    for row in rows:
        for role in row.roles if row.part == WHOLE else ():
            if role.startswith("step "):
                _, place, name = role.split(" ", 2)
                numbered.append((int(place), name, row))
    return found + [(f"+ {name}", row) for _, name, row in sorted(numbered, key=lambda it: it[0])]


def name_of(workload: tuple[str, int]) -> str:
    program, flows = workload
    name = PIPELINES.get(program, program)
    return name if program.startswith("sfu") else f"{name}, {flows:,} flow{'s' * (flows > 1)}"


def figures(rows: Sequence[PipelineRow]) -> list[Bars]:
    return [_steps(workload, of_workload(rows, workload)) for workload in workloads(rows)]


def _steps(workload: tuple[str, int], rows: Sequence[PipelineRow]) -> Bars:
    colour = PIPELINE_COLOURS.get(workload[0], GREY)
    bars = [Bar(name, colour, row.ns_per_packet) for name, row in steps(rows)]
    return Bars(
        key=f"pipeline-{workload[0]}-{workload[1]}",
        title=f"{name_of(workload)}: one optimisation after the other",
        label="time a packet, without ports (ns)",
        bars=tuple(bars),
        note=_reading(rows),
    )


def _reading(rows: Sequence[PipelineRow]) -> str:
    naive, best = with_role(rows, "naive"), with_role(rows, "all")
    reference = with_role(rows, "reference")
    if naive is None or best is None:
        return "The naive or the whole engine was not measured."
    text = (
        f"All optimisations: {number(best.ns_per_packet, ',.0f')} ns, "
        f"{number(ratio(best.ns_per_packet, naive.ns_per_packet), '.0%')} of naive"
    )
    if reference is not None:
        times = ratio(reference.ns_per_packet, best.ns_per_packet)
        text += f"; the interpreter takes {number(times, '.1f')} times as long"
    if best.copies_per_packet > 1:
        text += f". {best.copies_per_packet:.0f} copies, {number(best.ns_per_copy, '.1f')} ns each"
    return f"{text}."


def tables(rows: Sequence[PipelineRow]) -> list[Table]:
    """Tables of L2L3-ACL step by step (as in PISCES), of all parts, and of single optimisations."""
    if not rows:
        return []
    parts = [part for part in dict.fromkeys(row.part for row in rows) if part != WHOLE]
    return [*_pisces(rows), _parts(rows, parts), _alone(rows)]


def _pisces(rows: Sequence[PipelineRow]) -> list[Table]:
    made = []
    for workload in workloads(rows):
        found = of_workload(rows, workload)
        naive = with_role(found, "naive")
        if workload[0] != "l2l3_acl" or naive is None:
            continue
        lines, before = [], naive
        for name, row in steps(found):
            change = row.tsc_ticks_per_packet - before.tsc_ticks_per_packet
            share = ratio(row.ns_per_packet, naive.ns_per_packet)
            lines.append(
                (
                    name,
                    number(row.ns_per_packet, ",.1f"),
                    number(row.tsc_ticks_per_packet, ",.0f"),
                    "" if row is naive else number(change, "+.0f"),
                    number(share, ".0%"),
                )
            )
            before = row
        published = "; ".join(
            f"{name} {value:g}" if name in {PISCES[0][0], PISCES[-1][0]} else f"{name} {value:+g}"
            for name, value in PISCES
        )
        made.append(
            Table(
                key=f"table-pisces-{workload[1]}",
                title=f"{name_of(workload)}, step by step",
                groups=(("", 5),),
                columns=("step", "ns", "ticks", "change, ticks", "of naive"),
                rows=tuple(lines),
                note=f"64-byte packets. PISCES' own steps, cycles a packet: {published} (58 %).",
            )
        )
    return made


def _parts(rows: Sequence[PipelineRow], parts: Sequence[str]) -> Table:
    lines = []
    for workload in workloads(rows):
        found = of_workload(rows, workload)
        for role, label in (("reference", "interpreter"), ("naive", "naive"), ("all", "native")):
            whole = with_role(found, role)
            if whole is None:
                continue
            cells = [with_role(found, role, part) for part in parts]
            values = [number(cell.ns_per_packet, ",.0f") if cell else "" for cell in cells]
            lines.append(
                (
                    f"{name_of(workload)}: {label}",
                    number(whole.ns_per_packet, ",.0f"),
                    number(whole.tsc_ticks_per_packet, ",.0f"),
                    *values,
                )
            )
    return Table(
        key="table-pipeline-parts",
        title="Each pipeline by its parts",
        groups=(("", 1), ("whole", 2), ("of it, ns", len(parts))),
        columns=("pipeline", "ns", "ticks", *(part.replace("_", " ") for part in parts)),
        rows=tuple(lines),
        note="Parts are sampled from another processor: they need not add up to the whole.",
    )


def _alone(rows: Sequence[PipelineRow]) -> Table:
    names = [
        role.removeprefix("alone ")
        for row in of_workload(rows, workloads(rows)[0])
        if row.part == WHOLE
        for role in row.roles
        if role.startswith("alone ")
    ]
    lines = []
    for workload in workloads(rows):
        found = of_workload(rows, workload)
        for role, base in (("alone", "naive"), ("without", "all")):
            start = with_role(found, base)
            cells = [with_role(found, f"{role} {name}") for name in names]
            if start is None:
                continue
            shares = [
                number(ratio(cell.ns_per_packet, start.ns_per_packet), ".0%") if cell else ""
                for cell in cells
            ]
            of = "of naive" if base == "naive" else "of all"
            lines.append((f"{name_of(workload)}: {role}, {of}", *shares))
    return Table(
        key="table-pipeline-alone",
        title="Each optimisation alone, and all but it",
        groups=(("", 1), ("time a packet", len(names))),
        columns=("pipeline", *names),
        rows=tuple(lines),
        note="Alone: below 100 % it helps by itself. Without: above 100 % the rest misses it.",
    )


def growth_figures(rows: Sequence[GrowthRow]) -> list[Lines]:
    """Figures of cost against each growing size; dashed lines are the interpreter."""
    charts = []
    for grows, label in GROWS.items():
        found = [row for row in rows if row.grows == grows]
        if not found:
            continue
        is_copies = grows == "viewers"
        lines = []
        for program in dict.fromkeys(row.program for row in found):
            for engine, choice in (("native", "all"), ("interpreter", "none")):
                points = [
                    (row.value, row.ns_per_copy if is_copies else row.ns_per_packet)
                    for row in found
                    if (row.program, row.engine, row.optimisations) == (program, engine, choice)
                ]
                xs, ys = finite(points)
                if xs:
                    name = PIPELINES.get(program, program)
                    lines.append(
                        Line(
                            f"{name}{', interpreter' if engine == 'interpreter' else ''}",
                            PIPELINE_COLOURS.get(program, GREY),
                            xs,
                            ys,
                            PIPELINE_MARKERS.get(program, "x"),
                            engine == "interpreter",
                        )
                    )
        ticks = tuple(sorted({row.value for row in found})) if grows != "entries" else ()
        what = "copy" if is_copies else "packet"
        charts.append(
            Lines(
                key=f"growth-{grows.replace('_', '-')}",
                title=f"Time a {what} against {label.partition(' (')[0]}",
                x=Axis(label, is_log=True, ticks=ticks),
                y=Axis(f"time a {what}, without ports (ns)", is_log=True),
                lines=tuple(lines),
                note=_reading_of_growth(lines, what),
            )
        )
    return charts


def _reading_of_growth(lines: Sequence[Line], what: str) -> str:
    sentences = [
        f"{line.label}: {number(line.ys[0])} ns a {what} at {line.xs[0]:g}, "
        f"{number(line.ys[-1])} at {line.xs[-1]:g}."
        for line in lines
        if not line.is_dashed
    ]
    return " ".join(sentences)
