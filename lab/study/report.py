"""`report.html`: one file with everything in it, ours beside the thesis. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from string import Template

from lab import page
from lab.page import Table
from lab.study.analysis import Check
from lab.study.definitions import N_PACKETS, N_REPEATS_MAX, RunId, Sfu, Study
from lab.study.explain import count_viewers, duration, times
from lab.study.figures import Figure, svg_for_page
from lab.study.results import Results
from lab.traffic import FRAME_LEN_BYTES

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
        page.head(f"Reprise: study {study.name}", content.style),
        f"<h1>Selective forwarding by P4 and in user space: study “{escape(study.name)}”</h1>",
        _headline(results),
        page.navigation(_PLACES),
        _checks(results.checks, study, content.missing),
        '<h2 id="figures">Figures</h2>',
        f'<p class="note">{_FIGURES_NOTE}</p>',
        '<div class="figures">',
        *(_figure(figure) for figure in content.figures),
        "</div>",
        '<h2 id="tables">Tables</h2>',
        f'<p class="note">{_TABLES_NOTE}</p>',
        *(page.table_of(table, is_open=not _is_long(table)) for table in content.tables),
        prose,
        page.machine(content.sessions),
        "</body></html>\n",
    ]
    # No line ends between a number and its unit.
    return "\n".join(parts).replace(" Mbit/s", "&nbsp;Mbit/s")


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


def _checks(found: Sequence[Check], study: Study, missing: Sequence[RunId]) -> str:
    items = [
        page.verdict(f"{check.name} ({check.n_rows} runs)", check.holds, check.failures)
        for check in found
        if check.n_rows
    ]
    n_all = len(study.runs())
    items.append(
        page.verdict(
            f"complete: {n_all - len(missing)} of {n_all} runs",
            not missing,
            tuple(run.name for run in missing),
        )
    )
    return f'<h2 id="checks">Checks</h2><ul>{"".join(items)}</ul>'


def _figure(figure: Figure) -> str:
    return page.figure(figure.key, figure.title, svg_for_page(figure), figure.note)


def _is_long(table: Table) -> bool:
    return len(table.columns) > 20


_PLACES = ("checks", "figures", "tables", "method", "differences", "machine")
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
