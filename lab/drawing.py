"""Figures as PNG and SVG, in files and in pages. Pure.

In a page a figure has the page's own text colour, so that it can be read on light and on dark.
"""

import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas

from lab.svg import for_page

FONT = "DejaVu Sans"
WIDTH_INCHES = 5.0
PNG_DOTS_PER_INCH = 160
INK = "#1a1b1e"
INK_OF_PAGE = "#010203"
"""Stands for the page's own text colour until the SVG is put into the page."""


@dataclass(frozen=True, slots=True)
class Paper:
    """The surface of a figure; it has a title if nothing around it names it."""

    ink: str
    background: str
    titled: bool


ON_WHITE = Paper(INK, "white", titled=True)
IN_PAGE = Paper(INK_OF_PAGE, "none", titled=False)
Draw = Callable[[Paper], Canvas]


def png(draw: Draw) -> bytes:
    """A figure as PNG, dark on white."""
    canvas = _drawn(draw, ON_WHITE)
    FigureCanvasAgg(canvas)
    out = io.BytesIO()
    canvas.savefig(out, format="png", dpi=PNG_DOTS_PER_INCH, metadata={"Software": None})
    return out.getvalue()


def svg(key: str, draw: Draw) -> str:
    """A figure as SVG, dark on white; the key makes its ids differ from those of others."""
    return _svg(key, draw, ON_WHITE)


def pdf(draw: Draw) -> bytes:
    """A figure as PDF, dark on white."""
    canvas = _drawn(draw, ON_WHITE)
    FigureCanvasPdf(canvas)
    out = io.BytesIO()
    canvas.savefig(out, format="pdf", metadata={"CreationDate": None, "Creator": None})
    return out.getvalue()


def svg_for_page(key: str, title: str, draw: Draw) -> str:
    """A figure to be put into HTML: in the page's text colour and font, on its background."""
    text = _svg(key, draw, IN_PAGE, fonttype="none").replace(INK_OF_PAGE, "currentColor")
    text = text.replace(f"font-family: '{FONT}'", "font-family: inherit")
    return for_page(text, f"f{zlib.crc32(key.encode()):08x}", title)


def _drawn(draw: Draw, paper: Paper) -> Canvas:
    with mpl.rc_context({"font.family": FONT, "font.size": 10.5}):
        return draw(paper)


def _svg(key: str, draw: Draw, paper: Paper, fonttype: str = "path") -> str:
    # Ids in one page must differ from figure to figure, and not from one making to the next.
    with mpl.rc_context({"svg.hashsalt": key, "svg.fonttype": fonttype}):
        canvas = _drawn(draw, paper)
        FigureCanvasSVG(canvas)
        out = io.StringIO()
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return out.getvalue()


def dress(axes: Axes, ink: str) -> None:
    """Grid, ticks and the two axes in the colour of the text."""
    axes.grid(True, which="major", color=ink, alpha=0.18, linewidth=0.6)
    axes.tick_params(which="both", colors=ink)
    for side, spine in axes.spines.items():
        spine.set_visible(side in {"left", "bottom"})
        spine.set_color(ink)
