"""The report of the benchmark: read from files, true to them, whole."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

import pytest

from lab.bench import charts
from lab.bench.charts import Bars
from lab.bench.checks import checks
from lab.bench.fanout_figures import Beside
from lab.bench.names import COLOURS, NAMES, count, number
from lab.bench.plot import short
from lab.bench.readme import BEGIN, END, MarkerError, replaced, section_of
from lab.bench.report import Section, html_of, sections_of
from lab.bench.results import FILES, Results, results_of
from lab.bench.rows import ColumnError
from lab.study.keep import README, current_readme
from tests.bench.synthetic import files
from tests.html_parser import Strict

SESSION = {
    "started": "2026-01-01T00:00:00+00:00",
    "command": "python -m lab.bench <all>",
    "commit": "0123456789abcdef",
    "system": "Linux-6.18-x86_64",
    "processor": "a processor",
    "processors": "2",
}


def results(changed: Mapping[str, str] | None = None, *, without: str = "") -> Results:
    found = {**files(), **(changed or {})}
    found.pop(without, None)
    return results_of(found, SESSION, ())


@pytest.fixture(scope="module")
def sections() -> list[Section]:
    return sections_of(results())


def charts_of(sections: list[Section]) -> list[charts.Chart]:
    return [chart for section in sections for chart in section.charts]


def verdicts(found: Results) -> dict[str, bool | None]:
    return {check.name: check.holds for check in checks(found)}


def test_every_benchmark_has_its_place_in_the_report(sections: list[Section]) -> None:
    assert [section.key for section in sections] == [
        "fanout",
        "kernel",
        "switching",
        "pipelines",
        "growth",
        "overload",
        "pktswitch",
    ]
    keys = [chart.key for chart in charts_of(sections)]
    assert len(keys) == len(set(keys))
    assert {"fanout-rate-afxdp-spin", "growth-viewers", "overload-rate-64"} <= set(keys)
    for section in sections:
        for table in section.tables:
            assert sum(span for _, span in table.groups) == len(table.columns)
            assert all(len(row) == len(table.columns) for row in table.rows), table.key


def test_a_file_that_is_not_there_is_no_error() -> None:
    whole = len(sections_of(results()))
    for name in FILES:
        assert whole - 1 <= len(sections_of(results(without=name))) <= whole
    assert sections_of(results_of({}, SESSION, ("x: y",))) == []


def test_a_file_without_a_column_is_an_error_that_names_both() -> None:
    with pytest.raises(ColumnError, match=r"priority\.csv: expected a column row"):
        results({"priority.csv": "a,b\n1,2\n"})
    with pytest.raises(ColumnError, match=r"fanout\.csv: expected .*, found 'many'"):
        results({"fanout.csv": files()["fanout.csv"].replace(",64,", ",many,", 1)})


def test_checks_hold_where_the_numbers_do_and_only_there() -> None:
    found = verdicts(results())
    recirculation_is_slow = next(name for name in found if "rate of pktswitch" in name)
    assert found.pop(recirculation_is_slow) is False
    first_copy_is_late = next(name for name in found if "first copy" in name)
    assert found.pop(first_copy_is_late) is False
    assert all(found.values()), found
    broken = {
        "pipeline.csv": ("native,all,64,1,120.0", "native,all,64,1,190.0", "at most 58%"),
        "overload.csv": ("0,0,0.97", "0,0,0.47", "of the peak"),
        "priority.csv": (",9,0,81", ",9,0.1,81", "urgent"),
        "fanout.csv": (
            "ovs_group,,afxdp,spin,64,551385",
            "ovs_group,,afxdp,spin,64,951385",
            "Open vSwitch",
        ),
        "kernel.csv": (
            "p4_replication,kernel,xdp,shared,64,24",
            "p4_replication,kernel,xdp,shared,64,21",
            "80% of the rate of the relay",
        ),
    }
    for name, (before, after, what) in broken.items():
        text = files()[name]
        assert before in text, (name, before)
        worse = verdicts(results({name: text.replace(before, after)}))
        assert [name for name, holds in worse.items() if holds is False and what in name], name


def test_forwarders_are_beside_each_other_round_by_round() -> None:
    ours, theirs = "p4_replication,native,afxdp,spin,64", "pktswitch_bypass,,afxdp,spin,64"
    delays = ",1,1,1,1,1\n"
    # The machine is twice as fast in the second round: the ratio is 0.95, 0.9 and 0.92.
    rates = [(95, 100), (180, 200), (92, 100)]
    lines = [
        f"{one},{rate},{rate}{delays}"
        for pair in rates
        for one, rate in zip((ours, theirs), pair, strict=True)
    ]
    header = files()["fanout.csv"].split("\n", 1)[0] + "\n"
    rounds = results({"fanout-rounds.csv": header + "".join(lines)}).fanout_rounds
    beside = Beside(rounds)
    assert beside(rounds[0], rounds[1]) == pytest.approx(0.92)
    assert Beside(())(rounds[0], rounds[1]) == pytest.approx(0.95)


def test_what_was_not_measured_neither_holds_nor_fails() -> None:
    text = re.sub(r"^(pktswitch_bypass|ovs_group),.*\n", "", files()["fanout.csv"], flags=re.M)
    alone = [check for check in checks(results({"fanout.csv": text})) if "64 copies" in check.name]
    assert alone
    for check in alone[:4]:
        assert check.holds is None
        assert check.word == "not measured"


def test_sections_are_well_formed_and_need_nothing_from_outside(sections: list[Section]) -> None:
    html = "".join(html_of(section) for section in sections)
    parser = Strict()
    parser.feed(html)
    assert parser.open == []
    assert not re.search(r'(src|href)="(?!#)', html)
    assert html.count('role="img"') == len(charts_of(sections))


def test_a_forwarder_has_its_colour_and_no_other_has_it(sections: list[Section]) -> None:
    assert len(set(COLOURS.values())) == len(COLOURS) == len(NAMES)
    fanout = sections[0]
    for chart in fanout.charts:
        assert not isinstance(chart, Bars)
        for line in chart.lines:
            forwarder = next(key for key, name in NAMES.items() if line.label.startswith(name))
            assert line.colour == COLOURS[forwarder]


def test_figures_are_whole_files_and_the_same_each_time(sections: list[Section]) -> None:
    for chart in (sections[0].charts[0], sections[3].charts[0]):
        assert ElementTree.fromstring(charts.svg(chart)).tag.endswith("svg")
        assert charts.svg_for_page(chart) == charts.svg_for_page(chart)
        assert charts.png(chart).startswith(b"\x89PNG")


def test_numbers_have_three_digits_and_axes_short_ones() -> None:
    assert (count(712_345.0), count(float("nan")), count(85.4)) == ("712,000", "-", "85")
    assert (number(0.95123), number(1234.5), number(float("nan"))) == ("0.951", "1,234", "-")
    assert [short(value) for value in (64, 1500, 1024, 2e6)] == ["64", "1.5k", "1,024", "2M"]


def test_readme_is_current_with_the_run_that_is_kept() -> None:
    assert README.read_text() == current_readme(), "./reprise-lab keep makes it again"


def test_readmes_section_takes_its_numbers_from_the_files() -> None:
    section = section_of(results(), "studies/bench-x")
    assert "| P4, replication, native | 748,000 (0.95) | 748,000 (0.95) |" in section
    kernel = "| P4, replication, kernel | 850,000 (0.85) | 2,040,000 (0.85) | 2,270,000 (0.85) | "
    assert f"{kernel}2,470,000 (0.85) |" in section
    assert "| XDP relay by hand | 1,000,000 | 2,400,000 | 2,670,000 | 2,910,000 |" in section
    assert "| L2L3-ACL | 2,000,000 |  | 900,000 | 950,000 |" in section
    assert "| L2L3-ACL, 1 flow | 2,000 | 300 | 120 | 40% |" in section
    assert "These do not: at 64 copies, without loss: at least 90%" in section
    assert replaced(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(MarkerError):
        replaced("no marks", "new")
