import csv
import io
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from lab.page import STYLE
from lab.study.compare import compared
from lab.study.definitions import STUDIES, Sfu
from lab.study.derive import PROSE
from lab.study.explain import Point, queues_from, why
from lab.study.figures import COLOURS, figures, png, svg, svg_for_page
from lab.study.progress import Estimate, bar, clock
from lab.study.reference import load
from lab.study.report import Content, report
from lab.study.results import Results, results_of
from lab.study.tables import overview, tables
from tests.study.synthetic import runs_of

PUBLISHED = load()


@pytest.fixture(scope="module")
def thesis() -> Results:
    return results_of(runs_of(STUDIES["thesis"]), PUBLISHED)


@pytest.fixture(scope="module")
def demo() -> Results:
    return results_of(runs_of(STUDIES["demo"]), PUBLISHED)


def page(results: Results, name: str) -> str:
    content = Content(
        study=STUDIES[name],
        sessions=[{"command": "./reprise-lab run <it>", "commit": "abc"}],
        missing=[],
        results=results,
        figures=figures(results),
        tables=tables(results),
        style=STYLE.read_text(),
        prose=PROSE.read_text(),
    )
    return report(content)


def test_every_table_and_figure_of_the_thesis_has_its_counterpart(thesis: Results) -> None:
    numbers = {table.key for table in tables(thesis)}
    assert {f"table-{number:02d}" for number in range(1, 19)} <= numbers
    assert {f"figure-{number}" for number in range(23, 33)} <= {f.key for f in figures(thesis)}
    assert numbers - {f"table-{n:02d}" for n in range(1, 19)} == {
        "table-comparison-4mbps",
        "table-comparison-2.5mbps",
        *(f"table-{number:02d}r" for number in (1, 3, 5, 7, 11, 13, 15, 17)),
    }


def test_tables_set_ours_beside_the_thesis_with_the_ratio(thesis: Results) -> None:
    table = next(table for table in tables(thesis) if table.key == "table-01")
    assert len(table.rows) == 11
    header, *lines = csv.reader(io.StringIO(table.as_csv()))
    assert dict(zip(header, lines[10], strict=True))["thesis: avg delay, s"] == "0.854824"
    # Ours: 11 copies of 0.1 ms, one, two and three percent more.
    assert table.rows[10][3] == "0.001122"
    assert table.rows[10][-1] == f"{0.854824 / 0.001122:.3g}"
    assert all(len(row) == len(table.columns) for table in tables(thesis) for row in table.rows)
    assert all(sum(n for _, n in t.groups) == len(t.columns) for t in tables(thesis))


def test_the_comparison_has_the_thesis_percentages(thesis: Results) -> None:
    table = next(table for table in tables(thesis) if table.key == "table-09")
    assert [row[-1] for row in table.rows] == ["96.55", "98.44", "99.15", "99.82", "99.80"]
    assert table.rows[0][4] == "99.50"


def test_a_study_without_a_bitrate_has_no_tables_for_it(demo: Results) -> None:
    assert {"table-09", "table-05"}.isdisjoint(table.key for table in tables(demo))
    assert {"figure-23", "figure-comparison-4mbps"} <= {figure.key for figure in figures(demo)}


def test_the_same_sfu_has_the_same_colour_in_every_figure_and_no_other(thesis: Results) -> None:
    assert len(set(COLOURS.values())) == 3
    for figure in figures(thesis):
        found = set(re.findall(r"#[0-9a-f]{6}", svg_for_page(figure)))
        assert found <= {COLOURS[line.sfu] for line in figure.lines}
        assert found


def test_figures_are_whole_files_and_the_same_each_time(demo: Results) -> None:
    for figure in figures(demo):
        assert ElementTree.fromstring(svg(figure)).tag.endswith("svg")
    one = figures(demo)[0]
    assert svg(one) == svg(one)
    assert svg_for_page(one) == svg_for_page(one)
    image = png(one)
    assert image.startswith(b"\x89PNG")
    assert image == png(one)


class Strict(HTMLParser):
    void = frozenset({"meta", "path", "use", "rect"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


@pytest.mark.parametrize("name", ["demo", "thesis"])
def test_the_page_is_well_formed_and_needs_nothing_from_outside(
    name: str, request: pytest.FixtureRequest
) -> None:
    html = page(request.getfixturevalue(name), name)
    parser = Strict()
    parser.feed(html)
    assert parser.open == []
    assert not re.search(r'(src|href)="(?!#)', html)
    assert "url(http" not in html
    assert "@import" not in html
    assert "./reprise-lab run &lt;it&gt;" in html
    anchors = set(re.findall(r'<a href="#([^"]*)"', html))
    assert anchors <= set(parser.ids)
    axes = html.count('role="img"')
    assert axes == len(figures(results_of(runs_of(STUDIES[name]), PUBLISHED)))


def test_the_reasons_take_their_numbers_from_the_rows(thesis: Results) -> None:
    p4 = why(thesis, Sfu.P4_RECIRCULATION, 4.0)
    assert "from 4 viewers on (16 Mbit/s out) packets wait" in p4
    assert "Ours: at no number of viewers do packets wait" in p4
    assert "from 7 viewers on (17.5 Mbit/s out)" in why(thesis, Sfu.P4_RECIRCULATION, 2.5)
    assert "machine: at no number of viewers" in why(thesis, Sfu.P4_RECIRCULATION, 0.15)
    assert "1.12 ms, at 11 viewers" in p4
    userspace = why(thesis, Sfu.USERSPACE, 4.0)
    assert "0% of the packets here, 70% in the thesis" in userspace
    points = [Point(1, 0.001, 0.002), Point(2, 0.002, 0.003), Point(3, 0.002, 0.0061)]
    assert queues_from(points, 4.0) == 3


def test_the_terminal_table_has_a_row_per_number_of_viewers(demo: Results) -> None:
    lines = overview(demo)
    assert len(lines) == 1 + 5 * 4 + 3 * 2
    assert lines[5] == ("p4_recirculation", "4", "11", "1.122", "2.266", "0", "0", "854.824", "762")


def test_two_studies_are_compared_row_by_row(demo: Results, thesis: Results) -> None:
    rows = compared(demo.summaries, thesis.summaries)
    assert len(rows) == len({row[:3] for row in rows})
    assert rows[0][:6] == ("p4_recirculation", "4", "1", "0.102", "0.102", "1")
    only_in_b = next(row for row in rows if row[1] == "0.15")
    assert (only_in_b[3], only_in_b[5]) == ("", "")


def test_the_time_left_learns_from_what_runs_took() -> None:
    estimate = Estimate()
    assert estimate.left_s(100, 10) == 100
    estimate.add(took_s=5, planned_s=3)
    assert estimate.left_s(100, 10) == 120
    assert (clock(3661), clock(59.6)) == ("1:01:01", "0:01:00")
    assert bar(1, 2, 61, "x") == "[###############...............] 1/2  0:01:01 left  x"
