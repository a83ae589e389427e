"""The counterparts of the thesis' Figures 23 to 32: average delay against viewers. Pure.

The same SFU has the same colour and marker everywhere; published figures are dashed with hollow
markers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from lab import drawing
from lab.drawing import BLUE, GREEN, VERMILION, Paper
from lab.study.definitions import Sfu
from lab.study.explain import why, why_comparison
from lab.study.numbers import COMPARISON_FIGURES, FIRST_FIGURE, in_order_of_thesis
from lab.study.results import Results

COLOURS = {
    Sfu.P4_RECIRCULATION: BLUE,
    Sfu.P4_REPLICATION: GREEN,
    Sfu.USERSPACE: VERMILION,
}
MARKERS = {Sfu.P4_RECIRCULATION: "o", Sfu.P4_REPLICATION: "s", Sfu.USERSPACE: "^"}
BESIDE = {Sfu.P4_RECIRCULATION: -0.07, Sfu.P4_REPLICATION: 0.07, Sfu.USERSPACE: -0.04}
PUBLISHED_BESIDE = {Sfu.P4_RECIRCULATION: 0.0, Sfu.USERSPACE: 0.04}
"""Points that are equally high stand beside each other, not one behind the other."""
SIZE_INCHES = (drawing.WIDTH_INCHES, 3.9)


@dataclass(frozen=True, slots=True)
class Line:
    """Average delays against viewers, with their spread where it is known, in milliseconds."""

    sfu: Sfu
    published: bool
    viewers: tuple[int, ...]
    avg_ms: tuple[float, ...]
    lowest_run_ms: tuple[float, ...]
    highest_run_ms: tuple[float, ...]
    min_ms: tuple[float, ...]
    max_ms: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure before it is drawn."""

    key: str
    title: str
    lines: tuple[Line, ...]
    note: str


def figures(results: Results) -> list[Figure]:
    """All figures that the results have points for, in the thesis' order."""
    by_number: list[tuple[int, Figure]] = []
    for bitrate in results.bitrates_mbps:
        for sfus in ((Sfu.P4_RECIRCULATION, Sfu.P4_REPLICATION), (Sfu.USERSPACE,)):
            measured = [sfu for sfu in sfus if results.series(sfu, bitrate)]
            if measured:
                number = in_order_of_thesis(FIRST_FIGURE, measured[0], bitrate)
                name = "P4" if measured[0].is_p4 else "user-space"
                title = f"Average delay vs number of viewers, {name} SFU at {bitrate:g} Mbit/s"
                note = why(results, measured[0], bitrate)
                named = _named(number, f"delay-{bitrate:g}mbps-{name.lower()}", title)
                figure = Figure(*named, _lines(results, measured, bitrate), note)
                by_number.append((number or 100, figure))
        measured = [sfu for sfu in Sfu if results.series(sfu, bitrate)]
        if Sfu.USERSPACE in measured and len(measured) > 1:
            number = COMPARISON_FIGURES.get(bitrate)
            title = f"P4 SFU and user-space SFU at {bitrate:g} Mbit/s"
            note = why_comparison(results, bitrate)
            named = _named(number, f"comparison-{bitrate:g}mbps", title)
            figure = Figure(*named, _lines(results, measured, bitrate), note)
            by_number.append((number or 90, figure))
    return [figure for _, figure in sorted(by_number, key=lambda one: one[0])]


def _lines(results: Results, sfus: Sequence[Sfu], bitrate_mbps: float) -> tuple[Line, ...]:
    lines = [_measured(results, sfu, bitrate_mbps) for sfu in sfus]
    published = [sfu for sfu in sfus if sfu is not Sfu.P4_REPLICATION]
    lines += [_published(results, sfu, bitrate_mbps) for sfu in published]
    return tuple(line for line in lines if line.viewers)


def _named(number: int | None, otherwise: str, title: str) -> tuple[str, str]:
    if number is None:
        return f"figure-{otherwise}", title
    return f"figure-{number}", f"Figure {number}: {title}"


def _measured(results: Results, sfu: Sfu, bitrate_mbps: float) -> Line:
    points: list[tuple[int, float, float, float, float, float]] = []
    for row in results.series(sfu, bitrate_mbps):
        runs = [
            run.avg_delay_s
            for run in results.runs(sfu, bitrate_mbps)
            if run.viewers == row.viewers and run.avg_delay_s is not None
        ]
        if row.avg_delay_s is None or row.min_delay_s is None or row.max_delay_s is None:
            continue
        delays_s = (row.avg_delay_s, min(runs), max(runs), row.min_delay_s, row.max_delay_s)
        points.append((row.viewers, *delays_s))
    return _line(sfu, False, points)


def _published(results: Results, sfu: Sfu, bitrate_mbps: float) -> Line:
    points = [
        (
            row.viewers,
            row.avg_delay_s,
            *_run_range(results, sfu, row.viewers, bitrate_mbps),
            0.0,
            0.0,
        )
        for row in results.published.series(sfu, bitrate_mbps)
    ]
    return _line(sfu, True, points)


def _run_range(
    results: Results, sfu: Sfu, viewers: int, bitrate_mbps: float
) -> tuple[float, float]:
    averages = [
        row.avg_delay_s
        for row in results.published.runs
        if (row.sfu, row.viewers, row.bitrate_mbps) == (sfu, viewers, bitrate_mbps)
    ]
    return min(averages), max(averages)


def _line(
    sfu: Sfu, published: bool, points: Sequence[tuple[int, float, float, float, float, float]]
) -> Line:
    def column(idx: int) -> tuple[float, ...]:
        return tuple(point[idx] * 1000 for point in points)

    viewers = tuple(point[0] for point in points)
    return Line(sfu, published, viewers, column(1), column(2), column(3), column(4), column(5))


def png(figure: Figure) -> bytes:
    """The figure as PNG, dark on white."""
    return drawing.png(partial(_draw, figure))


def svg(figure: Figure) -> str:
    """The figure as SVG, dark on white."""
    return drawing.svg(figure.key, partial(_draw, figure))


def svg_for_page(figure: Figure) -> str:
    """The figure to be put into HTML."""
    return drawing.svg_for_page(figure.key, figure.title, partial(_draw, figure))


def _draw(figure: Figure, paper: Paper) -> Canvas:
    canvas = Canvas(figsize=SIZE_INCHES, facecolor=paper.background, layout="constrained")
    axes = canvas.add_subplot(facecolor="none")
    for line in figure.lines:
        _draw_line(axes, line)
    _dress(axes, paper.ink)
    canvas.legend(
        loc="outside lower center", ncols=2, frameon=False, fontsize=9.5, labelcolor=paper.ink
    )
    if paper.titled:
        canvas.suptitle(figure.title, fontsize=8.5, color=paper.ink)
    return canvas


def _draw_line(axes: Axes, line: Line) -> None:
    colour = COLOURS[line.sfu]
    shift = (PUBLISHED_BESIDE if line.published else BESIDE)[line.sfu]
    viewers = [n + shift for n in line.viewers]
    label = f"{line.sfu.label}, ours"
    if line.published:
        label = "P4, thesis" if line.sfu.is_p4 else "user space, thesis"
    else:
        _draw_band(axes, viewers, line)
    below = [avg - low for avg, low in zip(line.avg_ms, line.lowest_run_ms, strict=True)]
    above = [high - avg for avg, high in zip(line.avg_ms, line.highest_run_ms, strict=True)]
    axes.errorbar(
        viewers,
        line.avg_ms,
        yerr=[[max(value, 0.0) for value in below], [max(value, 0.0) for value in above]],
        label=label,
        color=colour,
        linestyle="--" if line.published else "-",
        marker=MARKERS[line.sfu],
        markersize=5,
        markerfacecolor="none" if line.published else colour,
        linewidth=1.4,
        elinewidth=1,
        capsize=2.5,
    )


def _draw_band(axes: Axes, viewers: Sequence[float], line: Line) -> None:
    colour = COLOURS[line.sfu]
    if len(viewers) == 1:
        axes.vlines(viewers, line.min_ms, line.max_ms, color=colour, alpha=0.25, lw=9)
    else:
        axes.fill_between(viewers, line.min_ms, line.max_ms, color=colour, alpha=0.16, lw=0)


def _dress(axes: Axes, ink: str) -> None:
    axes.set_yscale("log")
    axes.set_xlabel("viewers (number)", color=ink)
    axes.set_ylabel("average delay to the last copy (ms)", color=ink)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    low, high = axes.get_xlim()
    axes.set_xlim(min(low, 0.6), max(high, 1.4))
    low, high = axes.get_ylim()
    # At least two decades, so that a log axis has labels on it.
    if high / low < 100:
        middle = (low * high) ** 0.5
        low, high = middle / 10, middle * 10
    axes.set_ylim(low, high)
    drawing.dress(axes, ink)
