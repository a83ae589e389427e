"""The PISCES comparison as figures and tables: our results beside the paper's. No I/O.

Switches are compared by their peak, as in the paper: the packets a second that come through a
switch while more is offered than it can carry.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple

from lab.colours import BLUE, GREEN, GREY, VERMILION
from lab.figures.charts import Axis, Level, Line, Lines
from lab.figures.names import PIPELINE_COLOURS, PIPELINE_MARKERS, PIPELINES, count, number
from lab.figures.names import PORTS as PORT_NAMES
from lab.figures.table import Table
from lab.pisces.complexity import PUBLISHED_OVS_LINES, PUBLISHED_P4_LINES
from lab.pisces.network import PROGRAMS
from lab.pisces.openflow import DIFFERENCES
from lab.pisces.switches import (
    NAIVE,
    OFF,
    ON,
    OPTIMISED,
    OVS_NAME,
    PORTS,
    REPRISE_NAME,
    Contestant,
)
from lab.pisces.traffic import FRAMES_BYTES
from lab.results.benchmarks import Change, Counted, PiscesRow
from lab.results.statistics import ratio

ENOUGH = 0.95
"""A switch that reaches this share of Open vSwitch's rate counts as equally fast."""
PUBLISHED_OPTIMISED = {
    ("l2l3_acl", 64): 1 - 0.008,
    ("l2l3_acl", 128): 1 - 0.038,
    ("l2l3_acl", 192): 1 - 0.056,
    ("l2l3_acl", 256): 1 - 0.024,
    ("l2", 64): 18_118.5 / 17_131.3,
}
"""The share of Open vSwitch's rate that the paper's optimised variant reaches without a microflow
cache, by program and frame size. The paper and its slides have no shares for other programs and
sizes."""
PUBLISHED_NAIVE = dict.fromkeys((("l2l3_acl", size) for size in FRAMES_BYTES), 1 - 0.4)
"""The paper says that the naive variant is about 40 % slower at every size."""
PUBLISHED_MBIT_PER_S = {
    ("l2l3_acl", 64, NAIVE): 7_590.7,
    ("l2l3_acl", 64, OPTIMISED): 13_323.7,
    ("l2l3_acl", 64, ""): 13_497.5,
    ("l2", 64, OPTIMISED): 18_118.5,
    ("l2", 64, ""): 17_131.3,
}
"""The paper's rates by program, frame size in bytes, and variant (empty for Open vSwitch)."""
PUBLISHED_MICROFLOW = (("OVS", 7_728.0), ("PISCES", 6_464.0), ("PISCES, hash of 2 fields", 8_682.0))
"""The paper's rates of an L3 router with a microflow cache, at 64 bytes, in Mbit/s."""
Key = tuple[str, str, int, Contestant]
_LINES = (
    (REPRISE_NAME, OPTIMISED, BLUE, "P4, optimised"),
    (REPRISE_NAME, NAIVE, GREEN, "P4, naive"),
    (OVS_NAME, "", GREY, "Open vSwitch"),
)

SETTINGS = (
    (
        "flow caches off",
        "no `microflow-cache`, `megaflow-cache`, `flow-prefetch`: every table is looked up for "
        "every packet",
        "no exact-match cache (`emc-insert-inv-prob=0`), no signature-match cache "
        "(`smc-enable=false`); its megaflow classifier stays, for it is how the datapath knows "
        "what to do: one masked lookup in place of all tables",
    ),
    (
        "flow caches on",
        "all three, where the engine has one: it gives `l2` none, whose two lookups cost less",
        "the exact-match cache, which every new flow enters (`emc-insert-inv-prob=1`)",
    ),
)
"""What "flow caches off" and "on" mean here and for Open vSwitch."""


class Rates:
    def __init__(self, rows: Sequence[PiscesRow]) -> None:
        self._rows: Mapping[Key, PiscesRow] = {
            (row.port, row.program, row.frame_bytes, contestant_of(row)): row for row in rows
        }
        known = {row.port for row in rows}
        self.ports = [port for port in PORTS if port in known]

    def sizes(self, port: str, program: str) -> list[int]:
        return sorted({key[2] for key in self._rows if key[:2] == (port, program)})

    def row(self, port: str, program: str, size: int, one: Contestant) -> PiscesRow | None:
        return self._rows.get((port, program, size, one))

    def peak(self, port: str, program: str, size: int, one: Contestant) -> float:
        """The peak in packets a second; NaN if it was not measured."""
        row = self.row(port, program, size, one)
        return math.nan if row is None else row.packets_per_s_peak

    def of_ovs(self, port: str, program: str, size: int, one: Contestant) -> float:
        """Our peak divided by Open vSwitch's with the same caches: median of the sets' ratios."""
        row = self.row(port, program, size, one)
        return math.nan if row is None else row.peak_of_ovs


def contestant_of(row: PiscesRow) -> Contestant:
    """The switch, variant and setting of caches of a row."""
    return Contestant(row.switch, row.variant, row.flow_caches)


def _ours(variant: str, caches: str) -> Contestant:
    return Contestant(REPRISE_NAME, variant, caches)


def points(rows: Sequence[PiscesRow], caches: str) -> list[tuple[str, float]]:
    """The paper's twelve comparisons, measured on AF_XDP: optimised P4 divided by Open vSwitch."""
    rates = Rates(rows)
    return [
        (
            f"{PIPELINES[program]}, {size} bytes:",
            rates.of_ovs("afxdp", program, size, _ours(OPTIMISED, caches)),
        )
        for program in PROGRAMS
        for size in rates.sizes("afxdp", program)
    ]


def figures(rows: Sequence[PiscesRow]) -> list[Lines]:
    """A figure of each program's rates on AF_XDP, then one of all ratios beside the paper's."""
    rates = Rates(rows)
    if "afxdp" not in rates.ports:
        return []
    return [
        *(_rates(rates, program) for program in PROGRAMS if rates.sizes("afxdp", program)),
        _ratios(rates),
    ]


_SIZES = Axis("frame (bytes)", ticks=tuple(float(size) for size in FRAMES_BYTES))


def _rates(rates: Rates, program: str) -> Lines:
    lines = []
    for switch, variant, colour, label in _LINES:
        for caches in (OFF, ON):
            one = Contestant(switch, variant, caches)
            found = [
                (float(size), rates.peak("afxdp", program, size, one))
                for size in rates.sizes("afxdp", program)
            ]
            line = _line(f"{label}, caches {caches}", colour, found, is_dashed=caches == ON)
            lines.append(line)
    return Lines(
        key=f"pisces-{program}",
        title=f"{PIPELINES[program]}: packets a second on AF_XDP",
        x=_SIZES,
        y=Axis("packets a second (number)", starts_at_zero=True),
        lines=tuple(lines),
        note="The peak of each, in turns with the others; dashed: with flow caches.",
    )


def _ratios(rates: Rates) -> Lines:
    lines = [
        _line(
            f"{PIPELINES[program]}, caches {caches}",
            PIPELINE_COLOURS[program],
            [
                (float(size), rates.of_ovs("afxdp", program, size, _ours(OPTIMISED, caches)))
                for size in rates.sizes("afxdp", program)
            ],
            marker=PIPELINE_MARKERS[program],
            is_dashed=caches == ON,
        )
        for program in PROGRAMS
        for caches in (OFF, ON)
    ]
    published = [
        (float(size), share)
        for (program, size), share in PUBLISHED_OPTIMISED.items()
        if program == "l2l3_acl"
    ]
    lines.append(_line("PISCES, L2L3-ACL, caches off", GREY, published, marker="x"))
    return Lines(
        key="pisces-ratios",
        title="Optimised P4 beside Open vSwitch",
        x=_SIZES,
        y=Axis("rate, of Open vSwitch's (share)"),
        lines=tuple(lines),
        note="Each the median of the ratios of its sets of turns, on AF_XDP.",
        levels=(Level(f"{ENOUGH:.0%}", VERMILION, ENOUGH),),
    )


def _line(
    label: str,
    colour: str,
    found: Sequence[tuple[float, float]],
    *,
    marker: str = "o",
    is_dashed: bool = False,
) -> Line:
    known = [(x, y) for x, y in found if not math.isnan(y)]
    xs, ys = tuple(x for x, _ in known), tuple(y for _, y in known)
    return Line(label, colour, xs, ys, marker, is_dashed)


def tables(rows: Sequence[PiscesRow]) -> list[Table]:
    rates = Rates(rows)
    if not rates.ports:
        return []
    return [_points(rates), _megaflow(rates), *(_rate_table(rates, port) for port in rates.ports)]


def _points(rates: Rates) -> Table:
    lines = []
    for program in PROGRAMS:
        for size in rates.sizes("afxdp", program):
            cells = [PIPELINES[program], f"{size}"]
            for caches in (OFF, ON):
                optimised, naive = (
                    rates.of_ovs("afxdp", program, size, _ours(variant, caches))
                    for variant in (OPTIMISED, NAIVE)
                )
                verdict = "-" if math.isnan(optimised) else "yes" if optimised >= ENOUGH else "no"
                cells += [_share(optimised), verdict, _share(naive)]
            cells.append(_share(PUBLISHED_OPTIMISED.get((program, size), math.nan)))
            cells.append(_share(PUBLISHED_NAIVE.get((program, size), math.nan)))
            lines.append(tuple(cells))
    enough = f"at least {ENOUGH:.0%}"
    one = ("optimised", enough, "naive")
    return Table(
        key="pisces-points",
        title="PISCES: P4 beside Open vSwitch, rate for rate",
        groups=(("", 2), ("caches off", 3), ("caches on", 3), ("PISCES, caches off", 2)),
        columns=("program", "bytes", *one, *one, "optimised", "naive"),
        rows=tuple(lines),
        note="Shares of Open vSwitch's peak on AF_XDP, each with flow caches as the other. "
        + " ".join(
            f"{what}: here {ours}; Open vSwitch {theirs}." for what, ours, theirs in SETTINGS
        ),
    )


def _megaflow(rates: Rates) -> Table:
    """Makes the table for the setting that the paper calls "off".

    In this setting no side has a microflow cache, and both have a megaflow classifier.
    """
    lines = []
    for program in PROGRAMS:
        for size in rates.sizes("afxdp", program):
            theirs = rates.peak("afxdp", program, size, Contestant(OVS_NAME, "", OFF))
            shares = [
                ratio(rates.peak("afxdp", program, size, _ours(variant, ON)), theirs)
                for variant in (OPTIMISED, NAIVE)
            ]
            published = [
                known.get((program, size), math.nan)
                for known in (PUBLISHED_OPTIMISED, PUBLISHED_NAIVE)
            ]
            cells = (*map(_share, shares), *map(_share, published))
            lines.append((PIPELINES[program], f"{size}", *cells))
    return Table(
        key="pisces-megaflow",
        title="PISCES: both with what finds megaflows, neither with Open vSwitch's microflow cache",
        groups=(("", 2), ("here", 2), ("PISCES", 2)),
        columns=("program", "bytes", "optimised", "naive", "optimised", "naive"),
        rows=tuple(lines),
        note="PISCES is Open vSwitch, and had its megaflow classifier always: with what it calls "
        "off, one masked lookup stands for all tables. Ours with flow caches on (they keep masked "
        "flows, `megaflow-cache`) beside Open vSwitch with them off is the comparison that is most "
        "like it.",
    )


def _rate_table(rates: Rates, port: str) -> Table:
    lines = []
    for program in PROGRAMS:
        for size in rates.sizes(port, program):
            for switch, variant, _, label in _LINES:
                cells: list[str] = [PIPELINES[program], f"{size}", label]
                for caches in (OFF, ON):
                    row = rates.row(port, program, size, Contestant(switch, variant, caches))
                    cells += ["-"] * 3 if row is None else list(_rate_cells(row))
                published = PUBLISHED_MBIT_PER_S.get((program, size, variant), math.nan)
                cells.append(number(published, ",.1f"))
                lines.append(tuple(cells))
    one = ("packets/s, lossless", "packets/s, peak", "Mbit/s, peak")
    return Table(
        key=f"pisces-rates-{port}",
        title=f"PISCES: rates on {PORT_NAMES[port]}",
        groups=(("", 3), ("caches off", 3), ("caches on", 3), ("PISCES, caches off", 1)),
        columns=("program", "bytes", "switch", *one, *one, "Mbit/s"),
        rows=tuple(lines),
        note="Medians of the sets, one processor a switch. Lossless: the highest rate that was "
        "found at which every packet came. Mbit/s of frames as they are on a veth. The paper's are "
        "between physical ports, so ratios compare and rates do not. With a "
        "microflow cache its L3 router carried, in Mbit/s: "
        + ", ".join(f"{what} {rate:,.0f}" for what, rate in PUBLISHED_MICROFLOW)
        + ".",
    )


def _rate_cells(row: PiscesRow) -> Iterator[str]:
    yield count(row.packets_per_s_lossless)
    yield count(row.packets_per_s_peak)
    yield number(row.mbit_per_s_peak, ",.1f")


def _share(value: float) -> str:
    return number(value, ".3f")


def complexity_tables(programs: Sequence[Counted], new: Sequence[Change]) -> list[Table]:
    """Tables of lines of source, beside the paper's counts."""
    if not programs:
        return []
    return [_written(programs), _changed(new), _differences()]


def _written(programs: Sequence[Counted]) -> Table:
    lines = [tuple(map(str, astuple(one))) for one in programs]
    none = ("-",) * 4
    lines.append(("PISCES, its P4 program", "-", f"{PUBLISHED_P4_LINES}", *none))
    lines.append(("PISCES, the same in Open vSwitch", "-", f"{PUBLISHED_OVS_LINES:,}", *none))
    return Table(
        key="pisces-complexity",
        title="PISCES: what has to be written",
        groups=(("", len(lines[0])),),
        columns=("program", "files", "lines", "functions", "tables", "states", "blocks"),
        rows=tuple(lines),
        note="Lines without comments and blank ones, of a program and all that it includes of the "
        "repository. Functions are those of C, actions and functions of P4; states are the "
        "parser's, blocks parsers and controls. `lab/peers/pktswitch.c` is an SFU by hand, with "
        "its ports and its protocol for viewers; the two SFU programs also answer ARP and ping and "
        "count verdicts, and their ports are the switch's.",
    )


def _changed(new: Sequence[Change]) -> Table:
    return Table(
        key="pisces-headers",
        title="PISCES: lines to change for a new header",
        groups=(("", 3),),
        columns=("header", "files", "lines"),
        rows=tuple((one.name, f"{one.files}", f"{one.lines}") for one in new),
        note="In L2L3-ACL, so that the access list matches it: a label of 128 bits that an entry "
        "of `routable` gives a connection's packets, the flags of TCP, the OAM bit of Geneve. Each "
        "is a diff below `p4/bench/changes`, which a test applies, compiles and tries with "
        "packets. The paper says that its changes are about 40 times shorter in P4 than in Open "
        "vSwitch's C; its counts one by one are not in our sources.",
    )


def _differences() -> Table:
    return Table(
        key="pisces-differences",
        title="PISCES: where rules cannot do as the programs do",
        groups=(("", 1),),
        columns=("difference",),
        rows=tuple((one,) for one in DIFFERENCES),
        note="Everything else is the same, byte for byte and port for port: `tests/pisces` sends "
        "some hundred packets of every kind through both.",
    )
