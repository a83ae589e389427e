"""Pages as people see them: figures name their sources, axes have titles, tables fit."""

import pytest

from lab.experiment import parse
from lab.figures.charts import Axis, Line, Lines
from lab.figures.loads import figures
from lab.figures.plot import in_units, svg
from lab.figures.table import Table
from lab.pages.page import table_of
from tests.study.synthetic import results_from, text_of


def test_a_figure_beside_a_published_one_says_whose_each_line_is() -> None:
    text = text_of(
        "part: 4mbps, rows: [p4_recirculation], viewers: [1, 2], "
        "streams: [{packets: 300, bitrate_mbps: 4}]"
    )
    found = figures(results_from(parse(text, "x.yaml")))
    (one,) = (figure for figure in found if figure.key.startswith("beside-"))
    assert one.title == "Figure 23 of the thesis: average delay against viewers, 4mbps"
    assert [line.label for line in one.lines] == [
        "ours: P4, recirculation (native afpacket sleep)",
        "published: thesis",
    ]


def test_sizes_of_which_there_is_one_make_no_axis_of_fractions() -> None:
    lines = (Line("a", "#000000", (1.0,), (990.0,)),)
    chart = Lines("k", "t", Axis("viewers (number)"), Axis("delay (ms)", is_log=True), lines, "")
    assert "0.975" not in svg(chart)


@pytest.mark.parametrize(
    ("value", "label", "shown"),
    [
        (1000.0, "average delay (ms)", "1,000"),
        (10_000.0, "time a packet, without ports (ns)", "10,000"),
        (1000.0, "copies without loss (1/s)", "1k"),
        (2e6, "packets a second (number)", "2M"),
    ],
)
def test_times_have_no_thousands_in_letters(value: float, label: str, shown: str) -> None:
    assert in_units(value, label) == shown


@pytest.mark.parametrize(("n", "classes"), [(12, ""), (16, "wide"), (20, "wide widest")])
def test_a_table_of_many_columns_has_narrow_ones(n: int, classes: str) -> None:
    table = Table("k", "t", (("", n),), ("c",) * n, (("1",) * n,), "")
    expected = f'<table class="{classes}">' if classes else "<table>"
    assert expected in table_of(table)
