"""The figures of a study's loads: delay against viewers, and distributions of delay. No I/O.

A row (an SFU) has the same colour and marker everywhere, and a stroke for each of its variants.
Lines of published results are dashed, with hollow markers.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from lab.colours import GREY
from lab.figures.charts import Axis, Level, Line, Lines
from lab.figures.names import colour_of, marker_of
from lab.results.published import PublishedTable
from lab.results.series import CONVERSATION_MS, MUSICIANS_MS, Cdf, Results, Series, label_of

LINES_MAX = 12
"""A figure with more lines is split into several."""
SOME = 20


def figures(results: Results) -> list[Lines]:
    """Figures of delay against viewers, of delay beside published results, of distributions."""
    found: list[Lines] = []
    for part in results.experiment.loads:
        series = results.series_of(part)
        if any(len(one.summaries) > 1 for one in series):
            found += _split(delay(part.part, part.about, series))
    for part in results.experiment.loads:
        told = [(table, one) for one in results.series_of(part) if (table := one.published)]
        for row, group in groupby(told, key=lambda pair: pair[1].row):
            pairs = list(group)
            found.append(_beside(f"{part.part}-{row}", pairs[0][0], [one for _, one in pairs]))
    for part in results.experiment.loads:
        cdfs = [cdf for cdf in results.cdfs if cdf.part == part.part]
        if cdfs:
            found += _split(_distribution(part.part, cdfs))
    return found


def _split(figure: Lines) -> Iterator[Lines]:
    """Splits a figure into figures of about equally many lines, at most `LINES_MAX`."""
    n_figures = -(-len(figure.lines) // LINES_MAX)
    if n_figures == 1:
        yield figure
        return
    n_lines = -(-len(figure.lines) // n_figures)
    for idx in range(n_figures):
        lines = figure.lines[idx * n_lines : (idx + 1) * n_lines]
        title = f"{figure.title}, {idx + 1} of {n_figures}"
        yield replace(figure, key=f"{figure.key}-{idx + 1}", title=title, lines=lines)


def _in_turn(lines: Sequence[Line]) -> tuple[Line, ...]:
    """Returns the lines with `turn` set to each line's number among the lines of its colour."""
    seen: Counter[str] = Counter()
    found = []
    for line in lines:
        found.append(replace(line, turn=seen[line.colour]))
        seen[line.colour] += 1
    return tuple(found)


def _line(one: Series, label: str, name: str) -> Line:
    points = [
        (float(row.viewers), value * 1e3)
        for row in one.summaries
        if (value := getattr(row, name)) is not None
    ]
    xs, ys = (tuple(point[idx] for point in points) for idx in (0, 1))
    return Line(label, colour_of(one.row), xs, ys, marker_of(one.row))


def delay(
    part: str, about: str, series: Sequence[Series], column: str = "p99_delay_s", name: str = "p99"
) -> Lines:
    """Plots, against viewers, a percentile of the delay until a packet's last copy arrives."""
    several = len({one.row for one in series}) < len(series)
    lines = [
        _line(one, label_of(one.row, one.variant if several else ""), column) for one in series
    ]
    most = max((x for line in lines for x in line.xs), default=1)
    highest = max((y for line in lines for y in line.ys), default=0)
    levels = [
        Level(f"{limit:g} ms: {whom}", GREY, limit)
        for limit, whom in ((MUSICIANS_MS, "musicians"), (CONVERSATION_MS, "G.114"))
        if highest > limit / SOME
    ]
    return Lines(
        f"delay-{part}" if name == "p99" else f"delay-{name}-{part}",
        f"{name} of the last copy's delay against viewers, load “{part}”",
        Axis("viewers (number)", is_log=most > SOME),
        Axis(f"{name} of the last copy's delay (ms)", is_log=True),
        _in_turn(lines),
        about,
        tuple(levels),
    )


def _beside(key: str, table: PublishedTable, series: Sequence[Series]) -> Lines:
    """A figure of a row's variants under one load, and of the published result for this load."""
    row = series[0].row
    published = Line(
        f"published: {table.source}",
        colour_of(row),
        tuple(float(one.viewers) for one in table.rows),
        tuple(one.avg_delay_s * 1e3 for one in table.rows),
        marker_of(row),
        is_dashed=True,
    )
    column = "avg_copy_delay_s" if table.is_per_copy else "avg_delay_s"
    ours = [_line(one, label_of(one.row, one.variant), column) for one in series]
    ours = [replace(line, label=f"ours: {line.label}") for line in ours]
    number = f"{table.figure} of the {table.source}: " if table.figure else ""
    most = max((x for line in ours for x in line.xs), default=1)
    return Lines(
        f"beside-{key}",
        f"{number}average delay against viewers, {series[0].part.part}",
        Axis("viewers (number)", is_log=most > SOME),
        Axis(f"average delay of {'a' if table.is_per_copy else 'the last'} copy (ms)", is_log=True),
        (*_in_turn(ours), published),
        f"Ours beside {table.title} of the {table.source}.",
    )


def _distribution(part: str, cdfs: Sequence[Cdf]) -> Lines:
    lines = [
        Line(
            f"{cdf.label}, {cdf.viewers}",
            colour_of(cdf.row),
            cdf.delays_ms,
            tuple(share * 100 for share in cdf.shares),
            "",
        )
        for cdf in cdfs
    ]
    return Lines(
        f"cdf-{part}",
        f"Distribution of the last copy's delay, load “{part}”",
        Axis("delay of the last copy (ms)", is_log=True),
        Axis("packets at or below (%)", starts_at_zero=True),
        _in_turn(lines),
        "After each name, the number of viewers: the largest that was measured with all rows of "
        "the load, or else with this row.",
    )
