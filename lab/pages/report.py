"""`report.html`: a study's report for people, one file with everything in it."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from lab.experiment import Cell, Experiment, Part
from lab.figures.charts import Lines
from lab.figures.table import Table
from lab.pages import page
from lab.pages.sections import Section, html_of
from lab.results.series import Check, Results
from lab.results.verdicts import Promise
from lab.rows import ROWS

PROSE = Path(__file__).with_name("report_prose.html")
"""The text that says how loads are measured.

It is in the report of every study that sends streams through SFUs.
"""
NOT_JUDGED = "not judged in the short form"
N_OPEN_COLUMNS = 20
"""A table with this many columns or more is folded."""


@dataclass(frozen=True, slots=True)
class Content:
    experiment: Experiment
    is_quick: bool
    sessions: Sequence[Mapping[str, object]]
    missing: Sequence[Cell]
    not_measured: Mapping[str, str]
    results: Results
    figures: Sequence[Lines]
    tables: Sequence[Table]
    sections: Sequence[Section]
    promises: Sequence[Promise]
    missing_benchmarks: Sequence[str]


def report(content: Content) -> str:
    experiment, results = content.experiment, content.results
    first, *others = content.tables or (None,)
    parts = [
        page.head(f"Reprise: study {experiment.experiment}"),
        f"<h1>Study “{escape(experiment.experiment)}”{', short form' * content.is_quick}</h1>",
        f"<p>{page.prose(experiment.about)}. Source: {page.prose(experiment.source)}.</p>",
        page.navigation(_places(content)),
        page.table_of(first) if first else "",
        _checks(results.checks, content),
        *(_loads(content, [one for one in others if one is not None]) if experiment.loads else ()),
        *(html_of(section) for section in content.sections),
        # This text says how a load is offered to rows (SFUs). Each benchmark's section says how
        # that benchmark measures.
        PROSE.read_text() if experiment.loads else "",
        page.machine([_facts(session) for session in content.sessions]),
        "</body></html>\n",
    ]
    # No line may break between a number and its unit.
    return "\n".join(parts).replace(" Mbit/s", "&nbsp;Mbit/s")


def _places(content: Content) -> list[str]:
    loads = ["setup", "figures", "tables"] if content.experiment.loads else []
    method = ["method"] if content.experiment.loads else []
    return ["checks", *loads, *(one.key for one in content.sections), *method, "machine"]


def _loads(content: Content, tables: Sequence[Table]) -> list[str]:
    """The sections on loads: set-up, figures and tables."""
    return [
        _setup(content.experiment),
        '<h2 id="figures">Figures</h2>',
        '<div class="figures">',
        *(page.chart(one) for one in content.figures),
        "</div>",
        '<h2 id="tables">Tables</h2>',
        *(page.table_of(one, is_open=len(one.columns) < N_OPEN_COLUMNS) for one in tables),
    ]


def _facts(session: Mapping[str, object]) -> dict[str, str]:
    return {name: value for name, value in session.items() if isinstance(value, str)}


def _checks(found: Sequence[Check], content: Content) -> str:
    items = [
        page.verdict(f"{check.name} ({check.n_rows} runs)", check.holds, check.failures)
        for check in found
        if check.n_rows
    ]
    items += [
        _promise(one, is_judged=one.is_judged(is_quick=content.is_quick))
        for one in content.promises
    ]
    n_done = len(content.results.measured.runs)
    items.append(
        page.verdict(
            f"complete{f': {n_done} of {n_done + len(content.missing)} runs' if n_done else ''}",
            not content.missing and not content.missing_benchmarks,
            (*(cell.name for cell in content.missing), *content.missing_benchmarks),
        )
    )
    rows = {run.row for run in content.results.measured.runs if run.packets_out}
    due = dict.fromkeys(
        name
        for part in content.experiment.loads
        for name in part.rows
        if name in rows or not ROWS[name].is_optional or not ROWS[name].lacks()
    )
    lacking = tuple(
        f"{name}: {_why_lacking(name, content.not_measured)}" for name in due if name not in rows
    )
    if due:
        items.append(page.verdict(f"every row has results ({len(due)} rows)", not lacking, lacking))
    if content.not_measured:
        reasons = tuple(f"{what}: {why}" for what, why in content.not_measured.items())
        items.append(page.verdict("everything could be measured", False, reasons))
    return f'<h2 id="checks">Checks</h2><ul>{"".join(items)}</ul>'


def _why_lacking(row: str, not_measured: Mapping[str, str]) -> str:
    """Says why a row (SFU) has no results: what the last session noted for it or for its runs."""
    found = (why for what, why in not_measured.items() if row in re.findall(r"\w+", what))
    return next(found, "no copy came")


def _promise(promise: Promise, *, is_judged: bool) -> str:
    kind = {True: "holds", False: "fails", None: "note"}[promise.holds if is_judged else None]
    entries = "".join(f"<li>{escape(value)}</li>" for value in promise.found.split("; "))
    name = escape(promise.name)
    word = promise.word if is_judged else NOT_JUDGED
    return f'<li><span class="{kind}">{word}</span>: {name}<ul>{entries}</ul></li>'


def _setup(experiment: Experiment) -> str:
    topologies = dict.fromkeys(part.topology for part in experiment.loads)
    drawings = "".join(
        page.figure(f"setup-{one}", _TITLES[one], _drawing(several=one != "one_port"), _NOTES[one])
        for one in topologies
    )
    loads = "".join(f"<li>{_load(part)}</li>" for part in experiment.loads)
    return (
        f'<h2 id="setup">Set-up</h2><div class="figures">{drawings}</div>'
        f"<h3>Loads</h3><ul>{loads}</ul>"
    )


def _load(part: Part) -> str:
    streams = "; ".join(
        f"{one.name}: {_pace(one.model_dump(exclude_defaults=True))}" for one in part.streams
    )
    rows = "; ".join(ROWS[name].label for name in part.rows)
    who = {1: "one sender", "everybody": "everybody sends"}.get(
        part.senders, f"{part.senders} senders"
    )
    about = f" {escape(part.about)}." if part.about else ""
    return (
        f"<b>{escape(part.part)}</b>:{about} {who}, {escape(streams)}; {part.runs} runs a size; "
        f"{escape(rows)}"
    )


def _pace(of: Mapping[str, object]) -> str:
    words = [
        f"{name.replace('_', ' ')} {_plain(value)}" for name, value in of.items() if name != "name"
    ]
    return ", ".join(words)


def _plain(value: object) -> str:
    return " to ".join(f"{one:g}" for one in value) if isinstance(value, tuple) else str(value)


_TITLES = {"one_port": "Star on one port", "port_per_host": "Star on a port per host"}
_NOTES = {
    "one_port": "Every packet and every copy goes over the same link; participants are addresses.",
    "port_per_host": "Each participant is behind a port of its own; one process is at all ends.",
}
_BOX = '<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="none" stroke="currentColor"/>'
_TEXT = (
    '<text x="{x}" y="{y}" text-anchor="middle" font-size="{size}" fill="currentColor">'
    "{text}</text>"
)
_LINK = '<path d="M150 {y} H270" stroke="currentColor" fill="none"/>'


def _drawing(*, several: bool) -> str:
    """A drawing of the two namespaces and the links between them."""
    ys = (40, 65, 90, 115) if several else (77,)
    shapes = [
        _BOX.format(x=10, y=20, w=140, h=115),
        _BOX.format(x=270, y=20, w=140, h=115),
        _TEXT.format(x=80, y=62, size=13, text="hosts"),
        _TEXT.format(x=80, y=84, size=10.5, text="meter sends, times,"),
        _TEXT.format(x=80, y=99, size=10.5, text="takes every copy"),
        _TEXT.format(x=80, y=122, size=10.5, text="processor 1"),
        _TEXT.format(x=340, y=62, size=13, text="SFU"),
        _TEXT.format(x=340, y=84, size=10.5, text="the row"),
        _TEXT.format(x=340, y=122, size=10.5, text="processor 0"),
        *(_LINK.format(y=y) for y in ys),
        _TEXT.format(x=210, y=ys[0] - 8, size=10.5, text="veth"),
    ]
    return f'<svg role="img" viewBox="0 0 420 155">{"".join(shapes)}</svg>'
