"""Makes what is derived from the captures of a folder: rows, tables, figures, report."""

import shutil
from pathlib import Path

from lab.page import STYLE
from lab.process import deaf_to_signals
from lab.study.analysis import ExtendedRow, SummaryRow
from lab.study.csvs import to_csv
from lab.study.figures import figures, png, svg
from lab.study.folder import Folder, FolderError, write_whole
from lab.study.reference import load
from lab.study.report import Content, report
from lab.study.results import Results, results_of
from lab.study.tables import tables

PROSE = Path(__file__).with_name("report_prose.html")
REPORT = "report.html"


def derive(folder: Folder) -> Results:
    """Writes what is derived into `folder`, in place of what was there."""
    results = results_of(folder.runs(), load())
    if not results.extended:
        raise FolderError(f"{folder.path} has no finished run yet")
    drawn, made = figures(results), tables(results)
    content: dict[str, str | bytes] = {
        "extended.csv": to_csv(ExtendedRow, results.extended),
        "summary.csv": to_csv(SummaryRow, results.summaries),
    }
    for table in made:
        content[f"tables/{table.key}.csv"] = table.as_csv()
    for figure in drawn:
        content[f"figures/{figure.key}.png"] = png(figure)
        content[f"figures/{figure.key}.svg"] = svg(figure)
    page = Content(
        study=folder.study,
        sessions=folder.sessions,
        missing=folder.missing(),
        results=results,
        figures=drawn,
        tables=made,
        style=STYLE.read_text(),
        prose=PROSE.read_text(),
    )
    content[REPORT] = report(page)
    with deaf_to_signals():
        for old in ("tables", "figures"):
            shutil.rmtree(folder.path / old, ignore_errors=True)
        for name, data in content.items():
            write_whole(folder.path / name, data)
    return results
