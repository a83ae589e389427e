"""Derives rows, tables, figures and the report from the raw samples of a folder."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from lab.bench import charts
from lab.bench.checks import Check as Promise
from lab.bench.checks import checks
from lab.bench.report import sections_of
from lab.bench.results import Results as Benchmarks
from lab.bench.results import results_of as rows_of_benchmarks
from lab.csvs import text_of
from lab.files import write_whole
from lab.page import STYLE
from lab.process import deaf_to_signals
from lab.study import served, verdicts
from lab.study.figures import figures
from lab.study.folder import Folder, FolderError, Run
from lab.study.measures import RunRow, SummaryRow, ViewerRow, last_copies_s, measured
from lab.study.report import Content, report
from lab.study.results import Cdf, Check, Results, cdf_points, in_common, label_of
from lab.study.tables import tables

PROSE = Path(__file__).with_name("report_prose.html")
REPORT = "report.html"
_FORMS = (("_s", ".9f"), ("_pct", ".4f"), ("_kbps", ".3f"), ("_us", ".3f"), ("_packet", ".3f"))


class NothingMeasuredError(FolderError):
    """There is nothing to make a page of."""


@dataclass(frozen=True, slots=True)
class Derived:
    """What was made."""

    results: Results
    promises: list[Promise]
    """Of benchmarks."""

    @property
    def checks(self) -> list[Check]:
        """What must hold, of what there are runs."""
        return _checks(self.results)

    is_quick: bool
    """What promises speed means nothing then."""

    @property
    def holds(self) -> bool:
        """Whether all of it does."""
        return all(check.holds for check in self.checks) and not any(
            self.is_judged(promise) and promise.holds is False for promise in self.promises
        )

    def is_judged(self, promise: Promise) -> bool:
        """Whether it counts."""
        return not (self.is_quick and promise.is_of_speed)


def derive(folder: Folder) -> Derived:
    """Writes what is derived into `folder`, in place of what was there."""
    results = results_of(folder)
    benchmarks = benchmarks_of(folder)
    sections, promises = sections_of(benchmarks), checks(benchmarks)
    if not results.measured.runs and not sections:
        raise NothingMeasuredError(f"{folder.path} has no finished run yet")
    drawn, made = figures(results), tables(results)
    content: dict[str, str | bytes] = {}
    if results.measured.runs:
        content["runs.csv"] = csv_of(RunRow, results.measured.runs)
        content["viewers.csv"] = csv_of(ViewerRow, results.measured.viewers)
        content["summary.csv"] = csv_of(SummaryRow, results.measured.summaries)
    content.update(small_files(results, promises))
    for table in [*made, *(table for section in sections for table in section.tables)]:
        content[f"tables/{table.key}.csv"] = table.as_csv()
        content[f"tables/{table.key}.md"] = table.as_markdown()
        content[f"tables/{table.key}.tex"] = table.as_latex()
    for figure in [*drawn, *(chart for section in sections for chart in section.charts)]:
        content[f"figures/{figure.key}.pdf"] = charts.pdf(figure)
        content[f"figures/{figure.key}.svg"] = charts.svg(figure)
    content[REPORT] = report(
        Content(
            experiment=folder.experiment,
            is_quick=folder.is_quick,
            sessions=folder.sessions,
            missing=folder.missing(),
            not_measured=folder.not_measured,
            results=results,
            figures=drawn,
            tables=made,
            style=STYLE.read_text(),
            prose=PROSE.read_text(),
            sections=sections,
            promises=promises,
            promises_judged=[not (folder.is_quick and one.is_of_speed) for one in promises],
            missing_benchmarks=[part.part for part in folder.missing_benchmarks()],
        )
    )
    with deaf_to_signals():
        for old in ("tables", "figures"):
            shutil.rmtree(folder.path / old, ignore_errors=True)
        for name, data in content.items():
            write_whole(folder.path / name, data)
    return Derived(results, promises, folder.is_quick)


def small_files(results: Results, promises: Sequence[Promise]) -> dict[str, str]:
    """What is told of a study elsewhere, without its raw samples: verdicts, viewers served."""
    files = {verdicts.FILE: verdicts.as_csv(verdicts.verdicts_of(_checks(results), promises))}
    if results.series:
        files[served.FILE] = served.as_csv(served.served_of(results.series))
    return files


def _checks(results: Results) -> list[Check]:
    return [check for check in results.checks if check.n_rows]


def benchmarks_of(folder: Folder) -> Benchmarks:
    """What benchmarks wrote."""
    session = {name: value for name, value in folder.sessions[-1].items() if isinstance(value, str)}
    return rows_of_benchmarks(folder.benchmark_files(), session, tuple(folder.not_measured))


def results_of(folder: Folder) -> Results:
    """Everything that the runs of a folder say."""
    runs = list(folder.runs())
    found = Results(folder.experiment, measured(folder.experiment, runs), ())
    cdfs = [cdf for part in folder.experiment.loads for cdf in _cdfs(found, part.part, runs)]
    return Results(found.experiment, found.measured, tuple(cdfs))


def _cdfs(results: Results, part: str, runs: Sequence[Run]) -> list[Cdf]:
    series = [one for one in results.series if one.part.part == part]
    common = in_common(series)
    several = len({one.row for one in series}) < len(series)
    found = []
    for place, group in groupby(runs, key=lambda run: run.cell.place):
        if place.part != part:
            continue
        members = list(group)
        viewers = common or max(run.cell.viewers for run in members)
        delays = [last_copies_s(run.seen.samples) for run in members if run.cell.viewers == viewers]
        pooled = np.concatenate(delays)
        if len(pooled):
            delays_ms, shares = cdf_points(pooled)
            variant = str(place.variant)
            label = label_of(place.row, variant if several else "")
            found.append(
                Cdf(part, label, place.row, variant, viewers, tuple(delays_ms), tuple(shares))
            )
    return found


def csv_of(kind: type[Any], rows: Sequence[Any]) -> str:
    """Rows of a kind under their header; what does not exist is an empty cell."""
    names = [field.name for field in fields(kind)]
    return text_of([names, *([_cell(name, getattr(row, name)) for name in names] for row in rows)])


def _cell(column: str, value: Any) -> str:
    """One value, with the digits that its column's unit deserves: stamps have nanoseconds."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | str):
        return str(value)
    return next((f"{value:{form}}" for end, form in _FORMS if column.endswith(end)), f"{value:.6g}")
