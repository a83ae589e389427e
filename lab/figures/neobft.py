"""The NeoBFT study as figures and tables: our results beside NeoBFT's own. No I/O."""

import math
import statistics
from collections.abc import Iterator, Sequence

from lab.colours import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION
from lab.figures.charts import Axis, Line, Lines
from lab.figures.table import Column, Table, tabulate
from lab.neobft import published
from lab.results.benchmarks import DelayRow, DistributionRow, NeobftRow, PassRow, SignatureRow
from lab.results.statistics import ratio

NAMES = {"tagged": "AOM-HM", "signed": "AOM-PK", "plain": "plain multicast"}
COLOURS = {"tagged": BLUE, "signed": VERMILION, "plain": GREEN}
LOAD_COLOURS = {25: GREEN, 50: BLUE, 99: VERMILION}
CDF_POINTS = 200
"""The number of points of a line. The eye cannot tell more points apart."""
PLAIN_SHARE_MIN = 0.7
INTERPRETER_TIMES_MIN, FRESH_TIMES_MIN = 20.0, 10.0
NATIVE, WITHOUT_LANES, INTERPRETER = (
    "native",
    "native without lane-vectorisation",
    "interpreter",
)
_RECEIVERS = Axis("receivers (number)", ticks=tuple(float(size) for size in published.SIZES[1::2]))


def delay_figures(rows: Sequence[DistributionRow]) -> list[Lines]:
    return [_cdf(rows, kind) for kind in ("tagged", "signed") if _loads(rows, kind)]


def _loads(rows: Sequence[DistributionRow], kind: str) -> list[int]:
    return sorted({row.load_pct for row in rows if row.kind == kind})


def _cdf(rows: Sequence[DistributionRow], kind: str) -> Lines:
    lines = []
    for load_pct in _loads(rows, kind):
        found = [row for row in rows if (row.kind, row.load_pct) == (kind, load_pct)]
        xs, ys = _points(found)
        lines.append(Line(f"{load_pct} % load", LOAD_COLOURS[load_pct], xs, ys, marker=""))
        theirs = published.QUANTILES_US[kind, load_pct]
        lines.append(
            Line(
                f"NeoBFT (Tofino), {load_pct} %",
                LOAD_COLOURS[load_pct],
                tuple(theirs.values()),
                tuple(quantile / 100 for quantile in theirs),
                marker="x",
                is_dashed=True,
            )
        )
    return Lines(
        key=f"neobft-cdf-{kind}",
        title=f"{NAMES[kind]}: delay to the first of four receivers",
        x=Axis("delay (µs)", is_log=True),
        y=Axis("requests (share)", starts_at_zero=True),
        lines=tuple(lines),
        note="Load: of the highest rate without loss, found in the same run. Ours is from the "
        "sender's interface to the receiver's, through a software switch; theirs inside a Tofino.",
    )


def _points(rows: Sequence[DistributionRow]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Thins a distribution to about `CDF_POINTS` points of delay and share, and keeps the last."""
    total, so_far, next_share = sum(row.count for row in rows), 0, 0.0
    xs, ys = [], []
    for row in sorted(rows, key=lambda row: row.delay_us):
        so_far += row.count
        share = so_far / total
        if share >= next_share or so_far == total:
            xs.append(row.delay_us)
            ys.append(share)
            next_share = share + 1 / CDF_POINTS
    return tuple(xs), tuple(ys)


def throughput_figures(rows: Sequence[NeobftRow], passes: Sequence[PassRow]) -> list[Lines]:
    """Figures of requests and packets a second by receivers, and of where the time goes."""
    figures = []
    if rows:
        figures += [_requests(rows), _copies(rows)]
    if passes:
        figures.append(_passes(passes))
    return figures


def _requests(rows: Sequence[NeobftRow]) -> Lines:
    lines = []
    for kind in ("tagged", "signed"):
        of_kind = _of(rows, kind)
        name, colour = NAMES[kind], COLOURS[kind]
        xs = tuple(float(row.receivers) for row in of_kind)
        peaks = tuple(row.requests_per_s_peak for row in of_kind)
        lines.append(Line(name, colour, xs, peaks))
        known = [row for row in of_kind if row.requests_per_s_lossless > 0]
        lossless = tuple(row.requests_per_s_lossless for row in known)
        xs = tuple(float(row.receivers) for row in known)
        lines.append(Line(f"{name}, without loss", colour, xs, lossless, "D", is_dashed=True))
    sizes = tuple(float(size) for size in published.SIZES)
    computed = tuple(published.tagged_computed_per_s(size) for size in published.SIZES)
    lines.append(Line("NeoBFT AOM-HM, computed", GREY, sizes, computed, "", is_dashed=True))
    measured = published.TAGGED_MEASURED_PER_S
    xs = tuple(float(size) for size in measured)
    lines.append(Line("NeoBFT AOM-HM, measured", PURPLE, xs, tuple(measured.values()), "x"))
    theirs = (published.SIGNED_MEASURED_PER_S,) * len(sizes)
    lines.append(Line("NeoBFT AOM-PK, measured", ORANGE, sizes, theirs, "", is_dashed=True))
    return Lines(
        key="neobft-requests",
        title="Requests a second, every point of ours measured",
        x=_RECEIVERS,
        y=Axis("requests a second (number)", is_log=True),
        lines=tuple(lines),
        note="NeoBFT measured AOM-HM at 4 receivers and computed the rest; its switch is a Tofino, "
        "ours is software on one processor, whose packet sockets cost the same for each copy.",
    )


def _copies(rows: Sequence[NeobftRow]) -> Lines:
    lines = [
        Line(
            NAMES[kind],
            COLOURS[kind],
            tuple(float(row.receivers) for row in _of(rows, kind)),
            tuple(row.copies_per_s_peak for row in _of(rows, kind)),
        )
        for kind in NAMES
        if _of(rows, kind)
    ]
    return Lines(
        key="neobft-copies",
        title="Packets a second that leave the switch",
        x=_RECEIVERS,
        y=Axis("packets a second (number)", starts_at_zero=True),
        lines=tuple(lines),
        note="Plain multicast makes as many copies of each frame as AOM-HM, in turns with it: what "
        "the tags cost is between the two lines.",
    )


def _passes(rows: Sequence[PassRow]) -> Lines:
    parts = (
        (NATIVE, "whole", BLUE, "whole"),
        (NATIVE, "tags", VERMILION, "tags alone, no copies"),
        (WITHOUT_LANES, "tags", ORANGE, "tags alone, without lane vectorisation"),
        (NATIVE, "plain", GREEN, "plain multicast of as many copies"),
    )
    lines = []
    for engine, what, colour, label in parts:
        found = [row for row in rows if (row.engine, row.what) == (engine, what)]
        xs = tuple(float(row.receivers) for row in found)
        ys = tuple(row.ns_per_request for row in found)
        lines.append(Line(label, colour, xs, ys))
    return Lines(
        key="neobft-passes",
        title="AOM-HM inside the switch, without ports",
        x=_RECEIVERS,
        y=Axis("a request (ns)", is_log=True),
        lines=tuple(lines),
        note="The native engine in memory. Tags grow with receivers, copies with their square: "
        "each of n/4 packets goes to all n.",
    )


def _of(rows: Sequence[NeobftRow], kind: str) -> list[NeobftRow]:
    return sorted((row for row in rows if row.kind == kind), key=lambda row: row.receivers)


def tables(
    rows: Sequence[NeobftRow], delays: Sequence[DelayRow], passes: Sequence[PassRow]
) -> list[Table]:
    found = []
    if delays:
        found.append(_delay_table(delays))
    if rows:
        found.append(_rate_table(rows))
    if passes:
        found.append(_pass_table(passes))
    return found


def _delay_table(delays: Sequence[DelayRow]) -> Table:
    quantiles = sorted({row.quantile_pct for row in delays})
    lines = []
    for kind in ("tagged", "signed"):
        for load_pct in sorted({row.load_pct for row in delays if row.kind == kind}):
            of_load = [row for row in delays if (row.kind, row.load_pct) == (kind, load_pct)]
            ours = {row.quantile_pct: row.delay_us for row in of_load}
            theirs = published.QUANTILES_US[kind, load_pct]
            about = of_load[0]
            heads = (NAMES[kind], f"{load_pct}")
            load = (f"{about.requests_per_s:,.0f}", f"{about.samples:,}")
            lines.append((*heads, "ours", *load, *(_us(ours.get(it)) for it in quantiles)))
            cells = (_us(theirs.get(it)) for it in quantiles)
            lines.append((*heads, "NeoBFT", "-", "-", *cells))
    return Table(
        key="neobft-delays",
        title="Delay to the first of four receivers, in µs",
        groups=(("", 5), ("per cent of the requests", len(quantiles))),
        columns=(
            *("variant", "load (%)", "whose", "requests/s", "samples"),
            *(f"{it:g}" for it in quantiles),
        ),
        rows=tuple(lines),
        note="0 is the least, 100 the most; a quantile is told where at least ten samples are "
        "above it. A request counts when the first receiver has all of its packets. NeoBFT's are "
        "the sample files of its artifact, inside the switch.",
    )


def _us(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}" if value >= 100 else f"{value:.3g}"


RATES: tuple[Column[NeobftRow], ...] = (
    ("", "variant", lambda row: NAMES[row.kind]),
    ("", "receivers", lambda row: f"{row.receivers}"),
    ("", "packets a request", lambda row: f"{row.packets_per_request}"),
    ("requests a second", "peak", lambda row: f"{row.requests_per_s_peak:,.0f}"),
    ("requests a second", "without loss", lambda row: _rate(row.requests_per_s_lossless)),
    ("packets a second", "peak", lambda row: f"{row.copies_per_s_peak:,.0f}"),
    ("", "of plain multicast", lambda row: f"{row.of_plain:.0%}" if row.kind == "tagged" else "-"),
    ("", "signed", lambda row: f"{row.signed_share:.0%}" if row.kind == "signed" else "-"),
)


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value else "-"


def _rate_table(rows: Sequence[NeobftRow]) -> Table:
    return tabulate(
        "neobft-rates",
        "What each carries",
        RATES,
        sorted(rows, key=lambda row: (row.receivers, row.kind)),
        "Peaks are medians of turns; the share of plain multicast is the median of the turns' "
        "ratios. Of AOM-PK, the share of packets that had a signature at the peak: one processor "
        "is shared by switch, signer and who makes its nonces.",
    )


def _pass_table(passes: Sequence[PassRow]) -> Table:
    engines = list(dict.fromkeys(row.engine for row in passes))
    by_key = {(row.receivers, row.what, row.engine): row.ns_per_request for row in passes}
    lines = []
    for receivers, what in dict.fromkeys((row.receivers, row.what) for row in passes):
        cells = [by_key.get((receivers, what, engine), math.nan) for engine in engines]
        lines.append((f"{receivers}", what, *(f"{cell:,.0f}" for cell in cells)))
    return Table(
        key="neobft-passes",
        title="A request inside the switch, in ns",
        groups=(("", 2), ("engine", len(engines))),
        columns=("receivers", "what", *engines),
        rows=tuple(lines),
        note="In memory, without ports; medians of turns. `tags`: no copies are made. `plain`: "
        "multicast of as many copies, no tags.",
    )


def promises(
    rows: Sequence[NeobftRow], passes: Sequence[PassRow], signatures: Sequence[SignatureRow]
) -> Iterator[tuple[str, list[tuple[str, float, bool]]]]:
    if rows:
        values = [
            (f"{row.receivers} receivers:", row.of_plain, row.of_plain >= PLAIN_SHARE_MIN)
            for row in rows
            if row.kind == "tagged" and row.receivers == 4
        ]
        yield f"AOM-HM at 4 receivers at least {PLAIN_SHARE_MIN:.0%} of plain multicast", values
    if passes:
        by_key = {(row.receivers, row.what, row.engine): row.ns_per_request for row in passes}
        sizes = sorted({row.receivers for row in passes})
        times = [
            (size, ratio(by_key[size, "whole", INTERPRETER], by_key[size, "whole", NATIVE]))
            for size in sizes
        ]
        yield (
            f"AOM-HM: native at least {INTERPRETER_TIMES_MIN:g} times the interpreter",
            [(f"{size} receivers:", it, it >= INTERPRETER_TIMES_MIN) for size, it in times],
        )
    if signatures:
        times_fresh = statistics.median(
            ratio(row.pooled_per_s, row.fresh_per_s) for row in signatures
        )
        yield (
            f"AOM-PK: a full pool at least {FRESH_TIMES_MIN:g} times fresh nonces",
            [("median of the turns:", times_fresh, times_fresh >= FRESH_TIMES_MIN)],
        )
