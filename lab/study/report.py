"""`report.html`: one file with everything in it, ours beside the thesis. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from string import Template

from lab.study.analysis import Check
from lab.study.definitions import N_PACKETS, N_REPEATS_MAX, RunId, Sfu, Study
from lab.study.explain import count_viewers, duration, times
from lab.study.figures import Figure, svg_for_page
from lab.study.results import Results
from lab.study.tables import Table
from lab.traffic import FRAME_LEN_BYTES

N_FAILURES_SHOWN = 10
COMPARED = (Sfu.P4_RECIRCULATION, Sfu.USERSPACE)


@dataclass(frozen=True, slots=True)
class Content:
    """What goes into a page; `style` is CSS, `prose` the HTML of what every study has."""

    study: Study
    sessions: Sequence[Mapping[str, str]]
    missing: Sequence[RunId]
    results: Results
    figures: Sequence[Figure]
    tables: Sequence[Table]
    style: str
    prose: str


def report(content: Content) -> str:
    """The page of a study."""
    study, results = content.study, content.results
    prose = Template(content.prose).substitute(
        n_packets=N_PACKETS, frame_len_bytes=FRAME_LEN_BYTES, n_repeats_max=N_REPEATS_MAX
    )
    parts = [
        _head(study, content.style),
        f"<h1>Selective forwarding by P4 and in user space: study “{escape(study.name)}”</h1>",
        _headline(results),
        _navigation(),
        _checks(results.checks, study, content.missing),
        '<h2 id="figures">Figures</h2>',
        f'<p class="note">{_FIGURES_NOTE}</p>',
        '<div class="figures">',
        *(_figure(figure) for figure in content.figures),
        "</div>",
        '<h2 id="tables">Tables</h2>',
        f'<p class="note">{_TABLES_NOTE}</p>',
        *(_table(table) for table in content.tables),
        prose,
        _machine(content.sessions),
        "</body></html>\n",
    ]
    # No line ends between a number and its unit.
    return "\n".join(parts).replace(" Mbit/s", "&nbsp;Mbit/s")


def _head(study: Study, style: str) -> str:
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Reprise: study {escape(study.name)}</title>\n<style>\n{style}</style></head><body>"
    )


def _headline(results: Results) -> str:
    sentences = [_comparison(results, bitrate) for bitrate in results.bitrates_mbps]
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences if sentence)
    if not items:
        return '<p class="lead">No number of viewers was measured with both SFUs.</p>'
    return f'<ul class="lead">{items}</ul>'


def _comparison(results: Results, bitrate_mbps: float) -> str:
    """Both SFUs at the most viewers that the thesis, too, had for both, or else at the most."""
    delays = [
        {
            row.viewers: row.avg_delay_s
            for row in results.series(sfu, bitrate_mbps)
            if row.avg_delay_s is not None
        }
        for sfu in COMPARED
    ]
    common = delays[0].keys() & delays[1].keys()
    if not common:
        return ""
    published = {
        row.viewers: (row.avg_delay_s, other.avg_delay_s)
        for row in results.published.series(COMPARED[0], bitrate_mbps)
        if (other := results.published.summary(COMPARED[1], bitrate_mbps, row.viewers))
    }
    n = max(common & published.keys() or common)
    p4_s, userspace_s = delays[0][n], delays[1][n]
    sentence = (
        f"At {bitrate_mbps:g} Mbit/s and {count_viewers(n)} the last copy leaves the recirculating "
        f"P4 SFU after {duration(p4_s)} on average, the user-space SFU after "
        f"{duration(userspace_s)}: {times(userspace_s / p4_s)} times as long"
    )
    if n in published:
        was_p4_s, was_userspace_s = published[n]
        sentence += (
            f" (thesis: {duration(was_p4_s)} and {duration(was_userspace_s)}, "
            f"{times(was_userspace_s / was_p4_s)} times)"
        )
    return f"{sentence}."


def _navigation() -> str:
    places = ("checks", "figures", "tables", "method", "differences", "machine")
    return "<nav>" + "".join(f'<a href="#{place}">{place}</a>' for place in places) + "</nav>"


def _checks(found: Sequence[Check], study: Study, missing: Sequence[RunId]) -> str:
    items = [
        _check(f"{check.name} ({check.n_rows} runs)", check.holds, check.failures)
        for check in found
        if check.n_rows
    ]
    n_all = len(study.runs())
    items.append(
        _check(
            f"complete: {n_all - len(missing)} of {n_all} runs",
            not missing,
            tuple(run.name for run in missing),
        )
    )
    return f'<h2 id="checks">Checks</h2><ul>{"".join(items)}</ul>'


def _check(name: str, holds: bool, failures: Sequence[str]) -> str:
    verdict = '<span class="holds">holds</span>' if holds else '<span class="fails">fails</span>'
    more = len(failures) - N_FAILURES_SHOWN
    lines = [*failures[:N_FAILURES_SHOWN], *([f"and {more} more"] if more > 0 else [])]
    shown = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<li>{verdict}: {escape(name)}{f'<ul>{shown}</ul>' if shown else ''}</li>"


def _figure(figure: Figure) -> str:
    return (
        f'<figure id="{figure.key}"><h3>{escape(figure.title)}</h3>{svg_for_page(figure)}'
        f"<figcaption>{_prose(figure.note)}</figcaption></figure>"
    )


def _table(table: Table) -> str:
    starts = {sum(span for _, span in table.groups[:idx]) for idx in range(1, len(table.groups))}

    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(
            f"<{tag}{' class=' + chr(34) + 'first' + chr(34) if idx in starts else ''}>"
            f"{escape(value)}</{tag}>"
            for idx, value in enumerate(values)
        )

    groups = "".join(
        f'<th colspan="{span}"{" class=" + chr(34) + "group" + chr(34) if name else ""}>'
        f"{escape(name)}</th>"
        for name, span in table.groups
    )
    rows = "\n".join(f"<tr>{cells('td', row)}</tr>" for row in table.rows)
    return (
        f'<details id="{table.key}"{"" if _is_long(table) else " open"}>'
        f"<summary>{escape(table.title)}</summary>"
        f'<p class="note">{_prose(table.note)}</p><div class="scroll"><table><thead>'
        f"<tr>{groups}</tr>"
        f'<tr class="names">{cells("th", table.columns)}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _is_long(table: Table) -> bool:
    return len(table.columns) > 20


def _prose(text: str) -> str:
    """Text with `code` marked."""
    parts = escape(text).split("`")
    return "".join(f"<code>{part}</code>" if idx % 2 else part for idx, part in enumerate(parts))


_FIGURES_NOTE = (
    "Solid with filled markers: measured here; dashed with hollow markers: the thesis. Bars reach "
    "from the lowest to the highest average of the runs, the shaded band from the smallest to the "
    "largest delay of any packet. Delay axes are logarithmic. Numbers are those of the thesis' "
    "figures; figures without a number have no counterpart there."
)
_TABLES_NOTE = (
    "Numbers are those of the thesis' tables; a table with the letter r is the replicating P4 "
    "SFU's, beside the thesis' P4 SFU. “thesis / ours” says how many times our average delay fits "
    "into the published one. Where the thesis has no row the cells are empty."
)


def _machine(sessions: Sequence[Mapping[str, str]]) -> str:
    parts = ['<h2 id="machine">Machine</h2>']
    for idx, session in enumerate(sessions, 1):
        if len(sessions) > 1:
            parts.append(f"<h3>Session {idx}</h3>")
        entries = "".join(
            f"<dt>{escape(name.replace('_', ' '))}</dt><dd>{escape(value)}</dd>"
            for name, value in session.items()
        )
        parts.append(f"<dl>{entries}</dl>")
    return "\n".join(parts)
