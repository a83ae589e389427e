"""The benchmark's report shows everything that its files contain, and nothing else."""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import pytest

from lab.csvs import ColumnError
from lab.figures import charts, plot
from lab.figures.charts import Bars
from lab.figures.fanout import Beside
from lab.figures.names import colour_of, count, name_of, number
from lab.pages.checks import checks
from lab.pages.performance import page_of
from lab.pages.readme import BEGIN, END, KeptStudy, MarkerError, replaced, section_of
from lab.pages.sections import Section, html_of, sections_of
from lab.results.benchmarks import FILES, FanoutRow, Results, results_of
from lab.results.served import ServedRow
from lab.results.verdicts import Promise, Verdict
from lab.rows import ROWS
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


FANOUT = files()["fanout.csv"].partition("\n")[0]
"""The columns of fanout.csv, fanout-rounds.csv and kernel.csv."""
OVS_64 = "ovs_group,,afxdp,spin,64"
KERNEL_64 = "p4_replication,kernel,xdp,shared,64"


def results(changed: Mapping[str, str] | None = None, *, without: str = "") -> Results:
    found = {**files(), **(changed or {})}
    found.pop(without, None)
    return results_of(found, SESSION)


@pytest.fixture(scope="module")
def sections() -> list[Section]:
    return sections_of(results())


def charts_of(sections: list[Section]) -> list[charts.Chart]:
    return [chart for section in sections for chart in section.charts]


def rounds_of(lines: Sequence[str], more: str = "") -> tuple[FanoutRow, ...]:
    """The rows of a fanout-rounds.csv with these lines; `more` are additional columns."""
    text = "\n".join([FANOUT + more, *lines, ""])
    return results({"fanout-rounds.csv": text}).fanout_rounds


def check_of(found: Results, words: str) -> Promise:
    """Returns the only check (a claim about the results) whose name contains these words."""
    (one,) = (one for one in checks(found) if words in one.name)
    return one


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
    assert sections_of(results_of({}, SESSION)) == []


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
    broken = [
        ("pipeline.csv", "native,all,64,1,120.0", "native,all,64,1,190.0", "at most 58%"),
        ("overload.csv", "0,0,0.97", "0,0,0.47", "of the peak"),
        ("overload.csv", "spin,1,0.5,0,0,", "spin,1,2.1,0,0,", "a viewer gets at most"),
        ("overload.csv", "spin,1,0.5,0,0,", "spin,1,0.5,0,3,", "overload: nothing is lost that"),
        ("priority.csv", ",9,0,81", ",9,0.1,81", "urgent"),
        ("fanout.csv", f"{OVS_64},551385", f"{OVS_64},951385", "Open vSwitch"),
        ("kernel.csv", f"{KERNEL_64},24", f"{KERNEL_64},21", "80% of the rate of the relay"),
    ]
    for name, before, after, what in broken:
        text = files()[name]
        assert before in text, (name, before)
        worse = verdicts(results({name: text.replace(before, after)}))
        assert [name for name, holds in worse.items() if holds is False and what in name], name


def test_forwarders_are_beside_each_other_round_by_round() -> None:
    ours, theirs = "p4_replication,native,afxdp,spin,64", "pktswitch_bypass,,afxdp,spin,64"
    delays = ",1,1,1,1,1"
    # The machine is twice as fast in the second set. The sets' ratios are 0.95, 0.9 and 0.92.
    rates = [(95, 100), (180, 200), (92, 100)]
    lines = [
        f"{one},{rate},{rate}{delays}"
        for pair in rates
        for one, rate in zip((ours, theirs), pair, strict=True)
    ]
    rounds = rounds_of(lines)
    assert Beside(rounds)(rounds[0], rounds[1]) == pytest.approx(0.92)
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
    rows = ["raw", *(name for name, row in ROWS.items() if row.fanout or row.overload)]
    assert len({colour_of(row) for row in rows}) == len(rows)
    fanout = sections[0]
    for chart in fanout.charts:
        assert not isinstance(chart, Bars)
        for line in chart.lines:
            forwarder = next(row for row in rows if line.label.startswith(name_of(row)))
            assert line.colour == colour_of(forwarder)


def test_figures_are_whole_files_and_the_same_each_time(sections: list[Section]) -> None:
    for chart in (sections[0].charts[0], sections[3].charts[0]):
        assert ElementTree.fromstring(plot.svg(chart)).tag.endswith("svg")
        assert plot.svg_for_page(chart) == plot.svg_for_page(chart)
        assert plot.pdf(chart).startswith(b"%PDF")


def test_numbers_have_three_digits_and_axes_short_ones() -> None:
    assert (count(712_345.0), count(float("nan")), count(85.4)) == ("712,000", "-", "85")
    assert (number(0.95123), number(1234.5), number(float("nan"))) == ("0.951", "1,234", "-")
    assert [plot.short(value) for value in (64, 1500, 1024, 2e6)] == ["64", "1.5k", "1,024", "2M"]


def test_every_kept_study_says_what_does_not_hold() -> None:
    good, bad = Verdict("a promise", True, ""), Verdict("another | one", False, "0.9")
    kept = [
        kept_study("bench", results(), verdicts=[good]),
        kept_study("pisces", results_of({}, SESSION), verdicts=[good, bad]),
        kept_study("viewers", results_of({}, SESSION), verdicts=[Verdict("void", None, "")]),
    ]
    page = page_of("<!-- checks of all studies -->\nbefore\n<!-- end -->\n", kept)
    where = "../studies/pisces-x/report.html"
    assert f"| [pisces]({where}) | 0123456789ab | 1 of 2 | another \\| one |" in page
    assert "| 1 of 1 | - |" in page
    assert "before" not in page
    section = section_of(kept)
    assert "Of 3 checks of 3 kept [studies](studies/README.md) 2 hold." in section
    assert "These do not: pisces: another | one." in section


def test_readme_shows_who_serves_most_first_and_all_beside_ordinary_sockets() -> None:
    def row(name: str, engine: str, port: str, most: int, bad: int | None) -> ServedRow:
        return ServedRow("2.5mbps", name, engine, port, "sleep", 20.0, most, bad)

    rows = [
        row("p4_replication", "native", "afpacket", 2304, 2368),
        row("pktswitch_sockets", "", "udp", 1024, 1088),
        row("pktswitch_sockets", "", "udp_batched", 4096, None),
        ServedRow("2.5mbps-others", "janus_streaming", "", "", "", 20.0, 512, 576),
        ServedRow("2.5mbps-others", "janus_streaming", "", "", "", 150.0, 9999, None),
    ]
    section = section_of([kept_study("viewers", results_of({}, SESSION), served=rows)])
    table = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert table == [
        "| pktswitch, sockets | UDP sockets, sleeping, in batches | 4,096 or more | 4.00 |",
        "| P4, replication | AF_PACKET, sleeping | 2,304 | 2.25 |",
        "| pktswitch, sockets | UDP sockets, sleeping | 1,024 | 1.00 |",
        "| Janus, RTP forwarders | as it is | 512 | 0.50 |",
    ]
    assert "at commit 0123456789ab" in section


def kernel_rows(sink: str, native: float) -> str:
    named = {"p4_replication,kernel,xdp,shared": 2.7e6, "xdp_relay,,xdp,shared": 2.8e6}
    named["p4_replication,native,afxdp,spin"] = native
    return "".join(
        f"{name},64,{rate:.0f},{rate:.0f},1,1,1,1,1,{sink},0\n" for name, rate in named.items()
    )


def test_the_promise_beside_af_xdp_rests_on_one_sink_and_the_other_is_a_second_column() -> None:
    def promise(native_at_xdp: float, native_at_tcx: float) -> Promise:
        rows = kernel_rows("xdp", native_at_xdp) + kernel_rows("tcx", native_at_tcx)
        text = f"{FANOUT},sink,set\n{rows}"
        return check_of(results({"kernel.csv": text, "kernel-rounds.csv": text}), "2.5 times")

    told = promise(0.9e6, 2.2e6)
    assert (told.holds, told.found) == (True, " 3.00")
    # A rate of copies that XDP counted must not be compared with a rate of copies that tcx counted,
    # as older code did.
    assert promise(1.2e6, 0.9e6).holds is False


def test_one_that_was_measured_alone_is_beside_the_median_of_the_others_sets() -> None:
    """A forwarder measured alone is not compared with the first set of the other forwarder."""
    alone, peer = (
        "p4_replication,interpreter,afpacket,spin,64",
        "pktswitch_bypass,,afpacket,spin,64",
    )
    delays = ",1,1,1,1,1"
    rates = (729000, 765000, 772000)
    lines = [f"{alone},299000,299000{delays}", *(f"{peer},{n},{n}{delays}" for n in rates)]
    in_sets = [f"{line},{number}" for number, line in enumerate(lines, -1)]
    for rounds in (rounds_of(lines), rounds_of(in_sets, ",set")):
        assert Beside(rounds)(rounds[0], rounds[1]) == pytest.approx(299 / 765)
    # Sets that only one of the two forwarders has are left out.
    ours = "p4_replication,native,afpacket,spin,64"
    lines = [
        *(f"{ours},{rate},{rate}{delays},{n}" for n, rate in ((0, 90), (2, 60))),
        *(f"{peer},{rate},{rate}{delays},{n}" for n, rate in enumerate((100, 50, 60))),
    ]
    rounds = rounds_of(lines, ",set")
    assert Beside(rounds)(rounds[0], rounds[2]) == pytest.approx(0.95)


def test_a_forwarder_that_forwards_nothing_is_no_result() -> None:
    text = files()["fanout.csv"]
    silent = re.sub(r"^(ovs_group,,afxdp,spin,64),[0-9]+", r"\1,0", text, flags=re.M)
    assert silent != text
    check = check_of(results({"fanout.csv": silent}), "forwards")
    assert (check.holds, check.is_of_speed) == (False, False)
    assert "Open vSwitch, group, 64 copies: 0 (does not hold)" in check.found


def test_an_urgent_stream_that_is_lost_and_packets_that_vanish_are_told_of_the_kernel_too() -> None:
    lost = "p4_priority,kernel,xdp,thread,8,1.2,1,9,1,81,0.3,1,1984"
    shared = "p4_priority,kernel,xdp,thread,8,1.2,1,9,0.32,81,0.33,1,0"
    for kernel, holds in ((lost, False), (shared, True)):
        found = verdicts(results({"priority.csv": f"{files()['priority.csv']}{kernel}\n"}))
        of_two = [one for name, one in found.items() if name.startswith("two streams")]
        assert of_two == [holds] * 3


def test_a_deciding_trial_that_others_disturbed_is_told() -> None:
    line = "pktswitch_bypass,,afxdp,spin,64,1,1,1,1,1,1,1,60,"
    for is_disturbed in (0, 1):
        text = f"{FANOUT},trial_s,is_disturbed\n{line}{is_disturbed}\n"
        check = check_of(results({"fanout-rounds.csv": text}), "nobody else")
        assert check.holds is not bool(is_disturbed)


def kept_study(name: str, found: Results, **more: Any) -> KeptStudy:
    return KeptStudy(name, f"studies/{name}-x", SESSION, found, **more)


def test_readmes_section_stands_between_its_marks() -> None:
    assert replaced(f"a\n{BEGIN}\nold\n{END}\nb", "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(MarkerError):
        replaced("no marks", "new")
