"""`index.html`: lists a folder's studies and which rows (SFUs) have results in each."""

import csv
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from lab.figures.table import Table
from lab.files import write_whole
from lab.pages import page
from lab.pages.derive import REPORT
from lab.results.folder import Folder, folders
from lab.results.published import PUBLISHED_ONLY
from lab.rows import ROWS

INDEX = "index.html"


RATES = (
    "packets_out",
    "copies_per_s_lossless",
    "copies_per_s",
    "lossless_bypass_copies_per_s",
    "packets_per_s_lossless",
)
"""Columns that say whether anything was forwarded."""


def rows_of(folder: Folder) -> set[str]:
    """The rows (SFUs) that forwarded something in a study, in its runs or its benchmarks."""
    found: set[str] = set()
    for file in folder.path.glob("*.csv"):
        with file.open(newline="") as lines:
            found |= {
                line["row"]
                for line in csv.DictReader(lines)
                if line.get("row") in ROWS and _forwards(line)
            }
    return found


def _forwards(line: Mapping[str, str]) -> bool:
    rates = [float(line[name] or 0) for name in RATES if name in line]
    return not rates or max(rates) > 0


def rows_without_results(of: Iterable[Folder]) -> set[str]:
    """The rows (SFUs) that have results in none of the studies. Optional rows are left out."""
    found = set().union(*(rows_of(folder) for folder in of))
    return {name for name, row in ROWS.items() if not row.is_optional} - found


def n_due_rows() -> int:
    return sum(not row.is_optional for row in ROWS.values())


def write_index(results: Path) -> Path:
    """Writes the page, with the newest study first, and returns its path."""
    found = folders(results)
    items = "".join(_item(folder) for folder in reversed(found))
    parts = [
        page.head("Reprise: studies"),
        "<h1>Studies</h1>",
        f"<ul>{items}</ul>" if items else "<p>There is none yet.</p>",
        page.table_of(_table(found)),
        "</body></html>\n",
    ]
    file = results / INDEX
    write_whole(file, "\n".join(parts))
    return file


def _item(folder: Folder) -> str:
    experiment, name = folder.experiment, escape(folder.path.name)
    has_report = (folder.path / REPORT).exists()
    link = f'<a href="{name}/{REPORT}">{name}</a>' if has_report else name
    short = ", short form" if folder.is_quick else ""
    return f"<li>{link}{short}: {page.prose(experiment.about)} ({folder.state})</li>"


def _table(found: Iterable[Folder]) -> Table:
    of_rows: dict[str, list[str]] = {name: [] for name in ROWS}
    for folder in found:
        for name in rows_of(folder):
            of_rows[name].append(folder.experiment.experiment)
    rows = [
        (name, row.label, row.source, ", ".join(dict.fromkeys(of_rows[name])) or row.lacks())
        for name, row in ROWS.items()
    ]
    rows += [
        (one.row, one.label, one.source, "published figures only; nothing is run")
        for one in PUBLISHED_ONLY
    ]
    return Table(
        "rows",
        "Rows, and where they have results",
        (("", 4),),
        ("row", "what", "source", "studies"),
        tuple(rows),
        "",
    )
