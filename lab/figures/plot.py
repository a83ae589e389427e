"""Draws charts with matplotlib, as SVG and PDF, for files and for pages. No I/O.

A figure in a page has the page's own text colour, so that it can be read on a light and on a dark
background.
"""

import io
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from lab.figures.charts import Bars, Chart, Line, Lines
from lab.figures.svg import for_page

FONT = "DejaVu Sans"
WIDTH_INCHES = 5.0
INK = "#1a1b1e"
INK_OF_PAGE = "#010203"
"""Stands for the page's own text colour until the SVG is put into the page."""
LINES_SIZE_INCHES = (WIDTH_INCHES, 3.9)
LEGEND_ROWS = 3
"""This many rows of the legend fit into a figure of `LINES_SIZE_INCHES`."""
LEGEND_ROW_INCHES = 0.22
"""Each further row makes the figure this much higher."""
LEGEND_POINTS = 9.5
LEGEND_POINTS_MIN = 7.5
"""If labels would have to be smaller than this to stand side by side, the legend has one column."""
LEGEND_LETTERS = 52
"""How many letters two labels side by side may have together at `LEGEND_POINTS`."""
STROKES = ("-", ":", "-.", (0, (3, 1, 1, 1, 1, 1)))
"""The strokes of lines of one colour, by `Line.turn`. Plain dashes are for `Line.is_dashed`."""
TIMES = ("ns", "µs", "ms", "s")
BAR_INCHES = 0.33
BARS_SPARE_INCHES = 1.15
LABEL_ROOM = 1.22
"""The length of the bars' axis relative to the longest bar, whose number also needs room."""


@dataclass(frozen=True, slots=True)
class Paper:
    """The surface of a figure. `titled` says whether the figure shows its own title."""

    ink: str
    background: str
    titled: bool


ON_WHITE = Paper(INK, "white", titled=True)
IN_PAGE = Paper(INK_OF_PAGE, "none", titled=False)


def pdf(chart: Chart) -> bytes:
    canvas = _drawn(chart, ON_WHITE)
    FigureCanvasPdf(canvas)
    out = io.BytesIO()
    canvas.savefig(out, format="pdf", metadata={"CreationDate": None, "Creator": None})
    return out.getvalue()


def svg(chart: Chart) -> str:
    return _svg(chart, ON_WHITE)


def svg_for_page(chart: Chart) -> str:
    """The chart as an SVG element for HTML, whose text has the page's colour and font."""
    text = _svg(chart, IN_PAGE, fonttype="none").replace(INK_OF_PAGE, "currentColor")
    text = text.replace(f"font-family: '{FONT}'", "font-family: inherit")
    return for_page(text, f"f{zlib.crc32(chart.key.encode()):08x}", chart.title)


def _drawn(chart: Chart, paper: Paper) -> Canvas:
    with mpl.rc_context({"font.family": FONT, "font.size": 10.5}):
        return _draw(chart, paper)


def _svg(chart: Chart, paper: Paper, fonttype: str = "path") -> str:
    # The ids of a page's figures must differ from each other, but stay the same when a figure is
    # made again.
    with mpl.rc_context({"svg.hashsalt": chart.key, "svg.fonttype": fonttype}):
        canvas = _drawn(chart, paper)
        FigureCanvasSVG(canvas)
        out = io.StringIO()
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def short(value: float) -> str:
    """Writes a number of an axis: 1.5k for 1,500, 2M for 2,000,000."""
    for limit, unit in ((1e6, "M"), (1e3, "k")):
        if abs(value) >= limit and value % (limit / 10) == 0:
            return f"{value / limit:g}{unit}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"


def in_units(value: float, label: str) -> str:
    """Writes a number of an axis with this title. Times are not shortened to "1k"."""
    if any(f"({unit})" in label for unit in TIMES):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
    return short(value)


def _draw(chart: Chart, paper: Paper) -> Canvas:
    if isinstance(chart, Bars):
        size = (WIDTH_INCHES, BARS_SPARE_INCHES + BAR_INCHES * len(chart.bars))
    else:
        width, height = LINES_SIZE_INCHES
        n_rows = -(-len(_legend_labels(chart)) // _legend_columns(chart))
        size = (width, height + LEGEND_ROW_INCHES * max(0, n_rows - LEGEND_ROWS))
    canvas = Canvas(figsize=size, facecolor=paper.background, layout="constrained")
    axes = canvas.add_subplot(facecolor="none")
    if isinstance(chart, Bars):
        _draw_bars(axes, chart, paper.ink)
    else:
        _draw_lines(axes, chart, paper.ink)
        canvas.legend(
            loc="outside lower center",
            ncols=_legend_columns(chart),
            frameon=False,
            fontsize=_legend_points(chart),
            labelcolor=paper.ink,
        )
    if paper.titled:
        canvas.suptitle(chart.title, fontsize=8.5, color=paper.ink)
    return canvas


def _legend_labels(chart: Lines) -> list[str]:
    return [line.label for line in chart.lines] + [level.label for level in chart.levels]


def _legend_columns(chart: Lines) -> int:
    return 2 if _points_of_two_columns(chart) >= LEGEND_POINTS_MIN else 1


def _legend_points(chart: Lines) -> float:
    """The font size at which the legend is no wider than the figure."""
    if _legend_columns(chart) == 2:
        return _points_of_two_columns(chart)
    longest = max(map(len, _legend_labels(chart)))
    return min(LEGEND_POINTS, LEGEND_POINTS * LEGEND_LETTERS / max(1, longest))


def _points_of_two_columns(chart: Lines) -> float:
    labels = _legend_labels(chart)
    n_left = (len(labels) + 1) // 2
    columns = [column for column in (labels[:n_left], labels[n_left:]) if column]
    n_letters = sum(max(map(len, column)) for column in columns)
    return min(LEGEND_POINTS, LEGEND_POINTS * LEGEND_LETTERS / max(1, n_letters))


def _draw_lines(axes: Axes, chart: Lines, ink: str) -> None:
    for line in chart.lines:
        axes.plot(
            line.xs,
            line.ys,
            label=line.label,
            color=line.colour,
            linestyle="--" if line.is_dashed else STROKES[line.turn % len(STROKES)],
            marker=line.marker,
            markersize=5,
            markerfacecolor="none" if line.is_dashed else line.colour,
            linewidth=1.4,
        )
    for level in chart.levels:
        axes.axhline(level.y, label=level.label, color=level.colour, linestyle=":", linewidth=1.4)
    axes.set_xlabel(chart.x.label, color=ink)
    axes.set_ylabel(chart.y.label, color=ink)
    if chart.x.is_log:
        axes.set_xscale("log")
    if chart.y.is_log:
        axes.set_yscale("log")
        _widen(axes)
    elif chart.y.starts_at_zero:
        axes.set_ylim(bottom=0)
    for axis, wanted in ((axes.xaxis, chart.x), (axes.yaxis, chart.y)):
        if wanted.ticks:
            axis.set_ticks(list(wanted.ticks))
            axis.set_minor_locator(NullLocator())
        form = partial(in_units, label=wanted.label)
        axis.set_major_formatter(FuncFormatter(lambda value, _, form=form: form(value)))
        axis.set_minor_formatter(NullFormatter())
    xs = {x for line in chart.lines for x in line.xs}
    if len(xs) == 1 and not chart.x.ticks:
        # Only one size was measured: the axis shows no other numbers.
        (x,) = xs
        axes.set_xlim(x / 2 if chart.x.is_log else x - 1, 2 * x if chart.x.is_log else x + 1)
        axes.set_xticks([x])
    elif not chart.x.is_log and not chart.x.ticks and _are_whole(chart.lines):
        # Whole numbers only: there is no such thing as two and a half viewers.
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _dress(axes, ink)


def _are_whole(lines: Sequence[Line]) -> bool:
    return all(x == int(x) for line in lines for x in line.xs)


def _widen(axes: Axes) -> None:
    """Widens a log axis to at least two decades, so that it has labels."""
    low, high = axes.get_ylim()
    if high / low < 100:
        middle = (low * high) ** 0.5
        axes.set_ylim(middle / 10, middle * 10)


def _draw_bars(axes: Axes, chart: Bars, ink: str) -> None:
    places = range(len(chart.bars))
    values, colours = [bar.value for bar in chart.bars], [bar.colour for bar in chart.bars]
    axes.barh(places, values, height=0.68, color=colours, edgecolor=colours, linewidth=1.2)
    longest = max(values, default=1.0)
    for place, bar in zip(places, chart.bars, strict=True):
        axes.text(
            bar.value + longest * 0.012,
            place,
            f"{bar.value:,.0f}",
            va="center",
            color=ink,
            fontsize=9.5,
        )
    axes.set_yticks(list(places), [bar.label for bar in chart.bars])
    axes.invert_yaxis()
    axes.set_xlim(0, longest * LABEL_ROOM)
    axes.set_xlabel(chart.label, color=ink)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: in_units(value, chart.label)))
    _dress(axes, ink)
    axes.grid(False, axis="y")


def _dress(axes: Axes, ink: str) -> None:
    """Draws the grid, the ticks and the two axes in the colour of the text."""
    axes.grid(True, which="major", color=ink, alpha=0.18, linewidth=0.6)
    axes.tick_params(which="both", colors=ink)
    for side, spine in axes.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(ink)
