"""The figures of a study: delay against viewers, and distributions. Pure.

A row has the same colour and marker everywhere; what was published is dashed with hollow markers.
"""

from collections.abc import Sequence

from lab.bench.charts import Axis, Level, Line, Lines
from lab.drawing import GREY
from lab.looks import colour_of, marker_of
from lab.study.results import (
    CONVERSATION_MS,
    MUSICIANS_MS,
    Cdf,
    Results,
    Series,
    label_of,
)

LINES_MAX = 12
SOME = 20


def figures(results: Results) -> list[Lines]:
    """Delay against viewers for each part, then each published one, then distributions."""
    found: list[Lines] = []
    for part in results.experiment.loads:
        series = results.series_of(part)
        if any(len(one.summaries) > 1 for one in series):
            found.append(_delay(part.part, part.about, series))
    found += [_beside(one) for one in results.series if one.published]
    for part in results.experiment.loads:
        cdfs = [cdf for cdf in results.cdfs if cdf.part == part.part]
        if cdfs:
            found.append(_distribution(part.part, cdfs))
    return found


def _line(one: Series, label: str, name: str) -> Line:
    points = [
        (float(row.viewers), value * 1e3)
        for row in one.summaries
        if (value := getattr(row, name)) is not None
    ]
    xs, ys = (tuple(point[idx] for point in points) for idx in (0, 1))
    return Line(label, colour_of(one.row), xs, ys, marker_of(one.row))


def _delay(part: str, about: str, series: Sequence[Series]) -> Lines:
    several = len({one.row for one in series}) < len(series)
    lines = [
        _line(one, label_of(one.row, one.variant if several else ""), "p99_delay_s")
        for one in series
    ]
    most = max((x for line in lines for x in line.xs), default=1)
    highest = max((y for line in lines for y in line.ys), default=0)
    levels = [
        Level(f"{limit:g} ms: {whom}", GREY, limit)
        for limit, whom in ((MUSICIANS_MS, "musicians"), (CONVERSATION_MS, "G.114"))
        if highest > limit / SOME
    ]
    return Lines(
        f"delay-{part}",
        f"p99 of the last copy's delay against viewers, load “{part}”",
        Axis("viewers (number)", is_log=most > SOME),
        Axis("p99 of the last copy's delay (ms)", is_log=True),
        tuple(lines[:LINES_MAX]),
        about,
        tuple(levels),
    )


def _beside(one: Series) -> Lines:
    table = one.published
    if table is None:
        raise ValueError("nothing was published of this")
    published = Line(
        table.source,
        colour_of(one.row),
        tuple(float(row.viewers) for row in table.rows),
        tuple(row.avg_delay_s * 1e3 for row in table.rows),
        marker_of(one.row),
        is_dashed=True,
    )
    column = "avg_copy_delay_s" if table.is_per_copy else "avg_delay_s"
    ours = _line(one, label_of(one.row, one.variant), column)
    number = f"{table.figure}: " if table.figure else ""
    return Lines(
        f"beside-{one.key}",
        f"{number}average delay against viewers, {one.part.part}",
        Axis("viewers (number)"),
        Axis(f"average delay of {'a' if table.is_per_copy else 'the last'} copy (ms)", is_log=True),
        (ours, published),
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
        for cdf in cdfs[:LINES_MAX]
    ]
    return Lines(
        f"cdf-{part}",
        f"Distribution of the last copy's delay, load “{part}”",
        Axis("delay of the last copy (ms)", is_log=True),
        Axis("packets at or below (%)", starts_at_zero=True),
        tuple(lines),
        "Behind each name the number of viewers: the largest that all rows of the load have, or "
        "else the row's own largest.",
    )
