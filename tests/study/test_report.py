"""Tables, figures, page, index and comparison of studies with invented runs."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from lab.experiment import Cell, Experiment, known, parse
from lab.figures import charts, plot
from lab.figures.loads import figures
from lab.figures.table import Table
from lab.figures.tables import faster_pct, tables
from lab.pages.compare import HEADER, Side, compared
from lab.pages.derive import derive, results_of
from lab.pages.index import write_index
from lab.results import published
from lab.results.folder import Folder, Run
from lab.results.published import Load, table_for
from lab.results.series import Results, load_of
from tests.html_parser import Strict
from tests.study.files import csv_rows, files
from tests.study.synthetic import (
    FACTS,
    NOW,
    US,
    changed,
    results_from,
    runs_of,
    slot,
    text_of,
)

SMALL = """
experiment: small
about: "for `tests` & <others>"
source: tests
parts:
  - part: 0.15mbps
    rows: [p4_recirculation, p4_replication]
    viewers: [1, 5]
    streams: [{packets: 300, bitrate_mbps: 0.15}]
  - part: 0.15mbps-userspace
    rows: [userspace]
    viewers: [1, 5, 60]
    streams: [{packets: 300, bitrate_mbps: 0.15}]
  - part: everybody
    senders: everybody
    topology: port_per_host
    rows: [p4_replication]
    participants: [2, 3]
    streams: [{packets_per_s: 50}]
"""


def whole(name: str) -> Experiment:
    file = known()[name]
    return parse(file.read_text(), str(file))


@pytest.fixture(scope="module")
def thesis() -> Results:
    return results_from(whole("thesis"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    made = Folder.create(tmp_path_factory.mktemp("results"), SMALL, "small.yaml", NOW)
    made.add_session({"command": "./reprise-lab run <it>", "commit": "abc"})
    for run in runs_of(made.experiment):
        made.keep(run)
    derive(made)
    return made


TINY = text_of(
    "part: a, rows: [p4_replication], viewers: 1, runs: 1, streams: [{packets_per_s: 50}]",
    "part: b, rows: [userspace], viewers: 1, runs: 2, streams: [{packets_per_s: 50}]",
    name="tiny",
)


def titled(found: Results, title: str) -> Table:
    return next(one for one in tables(found) if one.title.startswith(f"{title}: "))


def cells(table: Table) -> list[list[str]]:
    return [list(row) for row in table.rows]


def test_every_published_table_of_the_thesis_has_its_counterpart(thesis: Results) -> None:
    titles = [table.title for table in tables(thesis)]
    for number in range(1, 19):
        assert sum(title.startswith(f"Table {number}: ") for title in titles) == 1, number
    for figure in range(23, 31):
        assert any(
            one.title.startswith(f"Figure {figure} of the thesis: ") for one in figures(thesis)
        )


def test_every_published_table_is_found_by_its_row_and_load() -> None:
    for table in published.tables():
        assert table_for(table.row, table.load) is table
        assert table.rows
    assert len(published.tables()) == 12


@pytest.mark.parametrize("part", ["one-stream", "two-streams", "one-stream-server"])
def test_the_multicast_papers_load_has_its_tables(part: str) -> None:
    of = whole("multicast").part(part)
    assert table_for(of.rows[0], load_of(of)) is not None


@pytest.mark.parametrize(
    ("experiment", "part"), [("multicast", "one-stream-2.5mbps"), ("conference", None)]
)
def test_another_load_is_not_set_beside_the_multicast_papers(
    experiment: str, part: str | None
) -> None:
    for of in whole(experiment).loads:
        if part in (None, of.part):
            for row in ("multicast_one_stream", "multicast_two_streams", "userspace_port_per_host"):
                assert table_for(row, load_of(of)) is None


def test_a_load_is_the_thesis_only_with_its_bitrate_and_one_sender() -> None:
    load = Load(everybody_sends=False, n_streams=1, bitrate_mbps=4.0)
    assert table_for("p4_recirculation", load) is not None
    for other in (
        replace(load, everybody_sends=True),
        replace(load, n_streams=2),
        replace(load, bitrate_mbps=4.1),
        replace(load, bitrate_mbps=None),
    ):
        assert table_for("p4_recirculation", other) is None


def test_tables_set_ours_beside_the_published_with_the_ratio(thesis: Results) -> None:
    table = titled(thesis, "Table 1")
    assert len(table.rows) == 11
    header, *lines = csv.reader(io.StringIO(table.as_csv()))
    last = dict(zip(header, lines[10], strict=True))
    assert last["thesis: avg delay, s"] == "0.854824"
    # Our delay: each of the 11 copies takes 102 us on average over the runs. On average 5.5 us are
    # added, since packet n of 0 to 11 is n us late.
    assert last["ours: avg delay, s"] == f"{11 * 102e-6 + 5.5e-6:.6f}"
    assert last["thesis / ours: avg delay"] == f"{0.854824 / (11 * 102e-6 + 5.5e-6):.3g}"


@pytest.mark.parametrize(
    ("number", "percentages"),
    [
        (9, ["96.55", "98.44", "99.15", "99.82", "99.80"]),
        (10, ["97.04", "97.91", "98.76", "99.56", "99.45", "99.79", "99.57"]),
    ],
)
def test_the_comparison_has_the_thesis_percentages(
    thesis: Results, number: int, percentages: list[str]
) -> None:
    table = titled(thesis, f"Table {number}")
    assert [row[-1] for row in table.rows] == percentages
    assert [row[0] for row in table.rows] == [str(one + 1) for one in range(len(percentages))]
    # Our three SFUs (recirculation, replication, user space) have the same delays here.
    assert all(row[1] == row[2] == row[3] and row[4] == "0.00" for row in table.rows)


def test_a_comparison_needs_both_sfus_under_one_load(folder: Folder) -> None:
    found = tables(results_of(folder))
    (one,) = [table for table in found if table.key.startswith("comparison-")]
    assert [row[0] for row in one.rows] == ["1", "5"]
    assert "At 5 viewers the user-space SFU takes 516 us" in one.note
    assert (faster_pct(1, 4), faster_pct(None, 4), faster_pct(1, 0)) == (75, None, None)


def test_tables_are_whole(thesis: Results, folder: Folder) -> None:
    for found in (tables(thesis), tables(results_of(folder))):
        assert len({table.key for table in found}) == len(found)
        for table in found:
            assert sum(span for _, span in table.groups) == len(table.columns)
            assert all(len(row) == len(table.columns) for row in table.rows)
            assert table.rows


def from_markdown(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        for line in lines[2:]
    ]


TEX = {r"\textbackslash{}": "\\", r"\textasciitilde{}": "~", r"\textasciicircum{}": "^"}


def from_latex(text: str) -> list[list[str]]:
    body = text.partition("\\midrule\n")[2].partition("\n\\bottomrule")[0]
    found = []
    for line in body.splitlines():
        assert line.endswith(r" \\")
        row = []
        for cell in re.split(r"(?<!\\) & ", line.removesuffix(r" \\")):
            plain = re.sub(r"\\([&%$#_{}])", r"\1", cell)
            for tex, letter in TEX.items():
                plain = plain.replace(tex, letter)
            row.append(plain)
        found.append(row)
    return found


def test_a_table_has_the_same_cells_in_every_form(thesis: Results) -> None:
    strange = Table(
        "t",
        "50 % of “all” & more_",
        (("", 1), ("a|b", 2)),
        ("x", "y_z", "100 %"),
        (("a|b", "p4_x", r"c\d ~ ^ {e} $ # & 5%"), ("", "-", "1,000")),
        "",
    )
    for table in [strange, *tables(thesis)]:
        header, *lines = csv.reader(io.StringIO(table.as_csv()))
        assert header == table.header
        assert lines == cells(table)
        assert from_markdown(table.as_markdown()) == cells(table)
        latex = table.as_latex()
        assert from_latex(latex) == cells(table)
        assert latex.count("{") == latex.count("}") or table is strange
        # TeX's special characters are escaped.
        inside = latex.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
        assert not re.search(r"(?<!\\)[%$#]", inside)
        assert not re.search(r"(?<!\\)_", inside)
    assert "``all''" in strange.as_latex()


def test_the_page_is_well_formed_and_needs_nothing_else(folder: Folder) -> None:
    text = (folder.path / "report.html").read_text()
    parser = Strict()
    parser.feed(text)
    assert parser.open == []
    assert len(parser.ids) == len(set(parser.ids))
    for place in re.findall(r'href="#([^"]+)"', text):
        assert place in parser.ids
    assert not re.findall(r'(?:src|href)="(?!#)', text)
    assert not re.search(r"url\((?!#)|@import|<script|<link", text)
    words = " ".join(parser.text)
    assert "for tests & <others>" in re.sub(r"\s+", " ", words.replace("\n", ""))
    assert "./reprise-lab run <it>" in words


@pytest.mark.parametrize(("n_late_runs", "most"), [(0, "60 or more"), (1, "60 or more"), (2, "1")])
def test_a_number_of_viewers_is_served_if_most_of_its_runs_are(n_late_runs: int, most: str) -> None:
    def delay(cell: Cell, packet: int, viewer: int) -> int:
        is_late = cell.participants > 2 and cell.run <= n_late_runs
        return (25_000 if is_late else 100) * US + packet + viewer

    experiment = of_variants("native udp sleep").experiment
    (series, _) = results_from(experiment, runs_of(experiment, delay)).series
    assert str(series.served(20)) == most
    assert str(series.served(150)) == "60 or more"


def test_the_page_answers_how_many_viewers_and_what_the_fiftieth_waits(folder: Folder) -> None:
    (answers,) = (one for one in tables(results_of(folder)) if one.key == "answers")
    rows = {(row[0], row[1].partition(" (")[0]): row[2:] for row in answers.rows}
    # The 50th of 60 viewers gets the last of 50 copies, so the time of 50 copies is its delay.
    userspace = next(row for (load, _), row in rows.items() if load == "0.15mbps-userspace")
    assert userspace[:2] == ("60 or more", "60 or more")
    first_ms, fiftieth_ms = 0.102 + 0.0055, 5.1 + 0.0055
    waits_ms = [first_ms, fiftieth_ms, fiftieth_ms - first_ms]
    assert [float(one) for one in userspace[2:5]] == pytest.approx(waits_ms, abs=6e-4)
    assert userspace[5] == "60"
    page = (folder.path / "report.html").read_text()
    assert page.index('<details id="answers" open>') < page.index('id="checks"')


def test_what_is_derived_is_the_same_each_time(folder: Folder) -> None:
    before = files(folder.path)
    assert {"runs.csv", "viewers.csv", "summary.csv", "report.html"} <= before.keys()
    (folder.path / "tables" / "old.csv").write_text("left by another version")
    derive(folder)
    after = files(folder.path)
    assert after.keys() == before.keys()
    assert after == before


def test_figures_are_whole_files_as_svg_and_pdf(folder: Folder) -> None:
    found = {figure.key for figure in figures(results_of(folder))}
    assert {"delay-0.15mbps", "delay-everybody", "cdf-0.15mbps-userspace"} <= found
    for key in found:
        svg = (folder.path / "figures" / f"{key}.svg").read_bytes()
        assert ElementTree.fromstring(svg).tag.endswith("svg")
        assert (folder.path / "figures" / f"{key}.pdf").read_bytes().startswith(b"%PDF")


def test_a_row_has_its_own_colour_and_marker_in_every_figure(thesis: Results) -> None:
    looks: dict[str, set[tuple[str, str]]] = {}
    for figure in figures(thesis):
        assert isinstance(figure, charts.Lines)
        for line in figure.lines:
            if not line.is_dashed:
                row = line.label.partition(" (")[0].removeprefix("ours: ")
                looks.setdefault(row, set()).add((line.colour, line.marker))
    assert all(len(one) == 1 for one in looks.values())
    assert len({one.pop() for one in looks.values()}) == len(looks) >= 3


def of_variants(variants: str) -> Results:
    text = text_of(
        f"part: 4mbps, rows: [p4_recirculation, p4_replication], variants: [{variants}], "
        "viewers: [1, 5, 60], streams: [{packets: 300, bitrate_mbps: 4}]"
    )
    return results_from(parse(text, "variants.yaml"))


def test_the_variants_of_a_row_share_its_colour_and_differ_in_their_stroke() -> None:
    found = figures(of_variants("native afpacket spin, native afxdp spin, interpreter udp sleep"))
    delay = next(one for one in found if one.key == "delay-4mbps")
    assert len({(line.colour, line.turn) for line in delay.lines}) == len(delay.lines) == 6


def test_what_was_published_stands_in_one_figure_beside_all_variants() -> None:
    found = figures(of_variants("native afpacket spin, native afxdp spin"))
    beside = [one for one in found if one.title.startswith("Figure 23 of the thesis: ")]
    (figure,) = beside
    assert [line.is_dashed for line in figure.lines] == [False, False, True]
    assert figure.x.is_log, "60 viewers beside the thesis' 11"


def test_an_axis_of_viewers_has_whole_numbers(thesis: Results) -> None:
    for figure in figures(thesis):
        assert isinstance(figure, charts.Lines)
        if figure.key.startswith("delay-"):
            page = plot.svg_for_page(figure)
            (middle,) = re.findall(r"\.([\w-]+)\{[^}]*text-anchor:middle", page)
            texts = re.findall(rf'<text[^>]*class="{middle}"[^>]*>([^<]*)</text>', page)
            ticks = [text for text in texts if re.fullmatch(r"[\d.,]+", text)]
            assert len(ticks) > 2
            assert all(tick.isdigit() for tick in ticks), ticks


def test_a_figure_of_too_many_lines_is_two_and_none_is_left_out() -> None:
    ports = ("afpacket", "afxdp", "udp")
    variants = [f"{engine} {port} sleep" for engine in ("native", "interpreter") for port in ports]
    variants.append("native afxdp spin")
    found = figures(of_variants(", ".join(variants)))
    parts = [one for one in found if one.key.startswith("delay-4mbps")]
    assert [one.key for one in parts] == ["delay-4mbps-1", "delay-4mbps-2"]
    assert [len(one.lines) for one in parts] == [7, 7]
    assert len({line.label for one in parts for line in one.lines}) == 14


def test_every_number_of_the_rows_is_in_the_files(folder: Folder) -> None:
    assert len(csv_rows(folder.path / "runs.csv")) == (4 + 3 + 2) * 3
    viewers = csv_rows(folder.path / "viewers.csv")
    assert len(viewers) == 3 * (2 * (1 + 5) + (1 + 5 + 60) + (2 + 3))
    summaries = csv_rows(folder.path / "summary.csv")
    assert len(summaries) == 4 + 3 + 2
    one = next(row for row in summaries if row["viewers"] == "60")
    assert float(one["avg_delay_s"]) == pytest.approx(60 * 102e-6 + 5.5e-6)


def test_checks_say_where_a_p4_row_lost_what_the_source_did_not() -> None:
    experiment = parse(SMALL, "small.yaml")

    def spoilt() -> Iterator[Run]:
        for run in runs_of(experiment):
            is_it = run.cell.place.row == "p4_recirculation" and run.cell.viewers == 5
            if not is_it or run.cell.run != 2:
                yield run
                continue
            short = replace(run.seen.slots[0], copies=11)
            slots = (short, *run.seen.slots[1:], slot(0, 1, [US]))
            yield replace(changed(run, slots=slots), facts=replace(FACTS, is_broken=True))

    found = results_from(experiment, spoilt())
    forwarding, losing, misdirecting = found.checks
    assert forwarding.holds
    assert not losing.holds
    (failure,) = losing.failures
    assert failure.startswith(
        "0.15mbps, p4_recirculation native afpacket sleep, 5 viewers, run 2: "
    )
    assert "1 copies missing" in failure
    assert "1 to strangers" in failure
    assert misdirecting.failures == (
        "0.15mbps, p4_recirculation native afpacket sleep, 5 viewers, run 2: 1 to strangers, "
        "0 twice",
    )
    assert all(check.holds for check in results_from(experiment).checks)


def test_an_unfinished_study_says_what_is_missing_and_why(tmp_path: Path) -> None:
    made = Folder.create(tmp_path, TINY, "tiny.yaml", NOW)
    session = made.add_session({"command": "x"})
    made.keep(next(iter(runs_of(made.experiment))))
    made.note_not_measured(session, "b: userspace", "no <gold> here")
    derive(made)
    text = (made.path / "report.html").read_text()
    assert "complete: 1 of 3 runs" in text
    assert "b: userspace: no &lt;gold&gt; here" in text
    assert "<li>userspace: no &lt;gold&gt; here</li>" in text


def test_the_index_has_every_study_the_newest_first(tmp_path: Path) -> None:
    results = tmp_path / "results"
    for day in (1, 2):
        made = Folder.create(results, TINY, "tiny.yaml", NOW.replace(day=day))
        made.add_session({"command": "x"})
    for run in runs_of(made.experiment):
        made.keep(run)
    derive(made)
    text = write_index(results).read_text()
    parser = Strict()
    parser.feed(text)
    assert parser.open == []
    assert text.index("tiny-20260102") < text.index("tiny-20260101")
    assert '<a href="tiny-20260102-030405/report.html">' in text
    assert "(complete)" in text
    assert "(3 runs missing)" in text
    assert "none yet" in write_index(tmp_path).read_text()


def side(experiment: Experiment, factor: float = 1.0, rows: str = "") -> Side:
    def delay(cell: Cell, packet: int, viewer: int) -> int:
        return round(factor * ((viewer + 1) * 100 + packet % 5 + cell.run) * US)

    runs = [one for one in runs_of(experiment, delay) if one.cell.place.row != rows]
    return Side(experiment, runs)


def lines(a: Side, b: Side) -> list[dict[str, str]]:
    return [dict(zip(HEADER, line, strict=True)) for line in compared(a, b)]


def test_a_study_compared_with_itself_is_alike() -> None:
    experiment = parse(SMALL, "small.yaml")
    found = lines(side(experiment), side(experiment))
    assert len(found) == 4 + 3 + 2
    assert {(line["verdict"], line["B / A"]) for line in found} == {("alike", "1")}
    assert {(line["A lost"], line["B lost"]) for line in found} == {("0", "0")}


@pytest.mark.parametrize(("factor", "verdict"), [(1.3, "B is slower"), (0.7, "B is faster")])
def test_a_study_that_differs_is_told_with_its_ratio(factor: float, verdict: str) -> None:
    experiment = parse(SMALL, "small.yaml")
    found = lines(side(experiment), side(experiment, factor))
    assert {line["verdict"] for line in found} == {verdict}
    assert {line["B / A"] for line in found} == {f"{factor:g}"}
    low, high = (float(one) for one in found[0]["95 % interval"].split(" to "))
    assert low < factor < high


def test_what_is_in_one_study_only_is_told_in_which() -> None:
    experiment = parse(SMALL, "small.yaml")
    found = lines(side(experiment, rows="userspace"), side(experiment))
    verdicts = {line["row"].split()[0]: line["verdict"] for line in found}
    assert verdicts["userspace"] == "only in B"
    assert verdicts["p4_recirculation"] == "alike"
    (turned,) = {
        line["verdict"]
        for line in lines(side(experiment), side(experiment, rows="userspace"))
        if line["row"] == "userspace"
    }
    assert turned == "only in A"


def test_loads_of_one_name_that_differ_are_not_compared() -> None:
    experiment = parse(SMALL, "small.yaml")
    other = parse(SMALL.replace("packets_per_s: 50", "packets_per_s: 60"), "small.yaml")
    verdicts = {line["load"]: line["verdict"] for line in lines(side(experiment), side(other))}
    assert verdicts == {
        "0.15mbps": "alike",
        "0.15mbps-userspace": "alike",
        "everybody": "the load differs",
    }


def test_a_study_without_any_copy_is_told() -> None:
    experiment = parse(SMALL, "small.yaml")
    whole_one, none = side(experiment), side(experiment)
    nothing = [changed(run, samples=(), slots=()) for run in none.runs]
    found = lines(whole_one, Side(experiment, nothing))
    assert {line["verdict"] for line in found} == {"no copy in B"}
    assert found[0]["B lost"] == "36"
