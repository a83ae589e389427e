"""Derives rows, tables, figures and the report from the raw samples of a folder."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from lab.csvs import csv_text
from lab.figures.loads import figures
from lab.figures.musicians import musicians_figures, musicians_promises, musicians_tables
from lab.figures.tables import tables
from lab.files import write_whole
from lab.pages.checks import checks
from lab.pages.report import Content, report
from lab.pages.sections import sections_of
from lab.process import deaf_to_signals
from lab.results import served, verdicts
from lab.results.benchmarks import Results as Benchmarks
from lab.results.benchmarks import results_of as rows_of_benchmarks
from lab.results.folder import Folder, FolderError, Run
from lab.results.runs import RunRow, SummaryRow, ViewerRow, cell, last_copies_s, measured
from lab.results.series import Cdf, Check, Results, cdf_points, in_common, label_of
from lab.results.verdicts import Promise

REPORT = "report.html"


class NothingMeasuredError(FolderError):
    """A folder has no results from which a report could be made."""


@dataclass(frozen=True, slots=True)
class Derived:
    results: Results
    promises: list[Promise]
    """The promises (claims about the switch) that this study's benchmarks check."""
    is_quick: bool
    """Whether the study is in its short form, in which promises about speed mean nothing."""

    @property
    def checks(self) -> list[Check]:
        return _checks(self.results)

    @property
    def holds(self) -> bool:
        """Whether all checks and all judged promises hold."""
        return all(check.holds for check in self.checks) and not any(
            self.is_judged(promise) and promise.holds is False for promise in self.promises
        )

    def is_judged(self, promise: Promise) -> bool:
        """Whether a promise counts in this form of the study."""
        return promise.is_judged(is_quick=self.is_quick)


def derive(folder: Folder) -> Derived:
    """Derives all tables, figures and pages, and writes them into `folder` over earlier ones."""
    # matplotlib takes half a second to load, and most commands of the lab draw nothing.
    from lab.figures import plot  # noqa: PLC0415

    results = results_of(folder)
    benchmarks = benchmarks_of(folder)
    sections, promises = sections_of(benchmarks), promises_of(results, benchmarks)
    if not results.measured.runs and not sections:
        raise NothingMeasuredError(f"{folder.path} has no finished run yet")
    drawn = [*figures(results), *musicians_figures(results)]
    made = [*musicians_tables(results), *tables(results)]
    content: dict[str, str | bytes] = {}
    if results.measured.runs:
        rows = results.measured
        content["runs.csv"] = csv_text(RunRow, rows.runs, cell)
        content["viewers.csv"] = csv_text(ViewerRow, rows.viewers, cell)
        content["summary.csv"] = csv_text(SummaryRow, rows.summaries, cell)
    content.update(small_files(results, promises))
    for table in [*made, *(table for section in sections for table in section.tables)]:
        content[f"tables/{table.key}.csv"] = table.as_csv()
        content[f"tables/{table.key}.md"] = table.as_markdown()
        content[f"tables/{table.key}.tex"] = table.as_latex()
    for figure in [*drawn, *(chart for section in sections for chart in section.charts)]:
        content[f"figures/{figure.key}.pdf"] = plot.pdf(figure)
        content[f"figures/{figure.key}.svg"] = plot.svg(figure)
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
            sections=sections,
            promises=promises,
            missing_benchmarks=[part.part for part in folder.missing_benchmarks()],
        )
    )
    with deaf_to_signals():
        for old in ("tables", "figures"):
            shutil.rmtree(folder.path / old, ignore_errors=True)
        for name, data in content.items():
            write_whole(folder.path / name, data)
    return Derived(results, promises, folder.is_quick)


def promises_of(results: Results, benchmarks: Benchmarks) -> list[Promise]:
    """Returns the promises that a study checks, about benchmarks and about loads of musicians."""
    return [*checks(benchmarks), *musicians_promises(results)]


def small_files(results: Results, promises: Sequence[Promise]) -> dict[str, str]:
    """Returns the files that other pages need from a study: its verdicts and the viewers served.

    They do not contain the raw samples.
    """
    files = {verdicts.FILE: verdicts.as_csv(verdicts.verdicts_of(_checks(results), promises))}
    if results.series:
        files[served.FILE] = csv_text(served.ServedRow, served.served_of(results.series))
    return files


def _checks(results: Results) -> list[Check]:
    return [check for check in results.checks if check.n_rows]


def benchmarks_of(folder: Folder) -> Benchmarks:
    session = {name: value for name, value in folder.sessions[-1].items() if isinstance(value, str)}
    return rows_of_benchmarks(folder.benchmark_files(), session)


def results_of(folder: Folder) -> Results:
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
            label = label_of(place.row, str(place.variant) if several else "")
            found.append(Cdf(part, label, place.row, viewers, tuple(delays_ms), tuple(shares)))
    return found
