"""`report.html` of a benchmark: one file with everything in it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from lab import page
from lab.bench import fanout_figures, load_figures, pipeline_figures
from lab.bench.charts import Chart, svg_for_page
from lab.bench.checks import Check, checks
from lab.bench.results import Results
from lab.page import Table


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment in the report."""

    key: str
    title: str
    about: str
    charts: tuple[Chart, ...]
    tables: tuple[Table, ...]


@dataclass(frozen=True, slots=True)
class Content:
    """What goes into the page."""

    session: Mapping[str, str]
    not_measured: Sequence[str]
    missing: Sequence[str]
    checks: Sequence[Check]
    sections: Sequence[Section]

    @property
    def charts(self) -> list[Chart]:
        """All figures."""
        return [chart for section in self.sections for chart in section.charts]


def content_of(results: Results) -> Content:
    """Everything that is derived from the rows, the thesis' figures beside them."""
    beside = fanout_figures.Beside(results.fanout_rounds)
    sections = [
        Section(
            "fanout",
            "Fan-out",
            _FANOUT,
            tuple(fanout_figures.figures(results.fanout, beside)),
            tuple(fanout_figures.tables(results.fanout, beside)),
        ),
        Section(
            "pipelines",
            "Pipelines without ports",
            _PIPELINES,
            tuple(pipeline_figures.figures(results.pipeline)),
            tuple(pipeline_figures.tables(results.pipeline)),
        ),
        Section(
            "growth",
            "How cost grows",
            _GROWTH,
            tuple(pipeline_figures.growth_figures(results.growth)),
            (),
        ),
        Section(
            "overload",
            "Overload",
            _OVERLOAD,
            tuple(load_figures.overload_figures(results.overload)),
            tuple(load_figures.overload_tables(results.overload, results.priority)),
        ),
        Section(
            "pktswitch",
            "Sockets against kernel bypass",
            _PKTSWITCH,
            tuple(load_figures.pktswitch_figures(results.pktswitch)),
            tuple(load_figures.pktswitch_tables(results.pktswitch)),
        ),
        Section(
            "knee",
            "How many viewers",
            _KNEE,
            tuple(load_figures.knee_figures(results.knee)),
            tuple(load_figures.knee_tables(results.knee)),
        ),
    ]
    return Content(
        session=results.session,
        not_measured=results.not_measured,
        missing=results.missing,
        checks=checks(results),
        sections=[section for section in sections if section.charts or section.tables],
    )


def report(content: Content, style: str, prose: str) -> str:
    """The page."""
    places = ("checks", *(section.key for section in content.sections), "repeat", "machine")
    parts = [
        page.head("Reprise: benchmark", style),
        "<h1>The switch beside its peers</h1>",
        f'<p class="lead">{escape(_lead(content.session))}</p>',
        page.navigation(places),
        _checks(content),
        *(_section(section) for section in content.sections),
        prose,
        page.machine([content.session]),
        "</body></html>\n",
    ]
    return "\n".join(parts)


def _lead(session: Mapping[str, str]) -> str:
    return (
        f"Measured {session['started']} on {session['processor']} with {session['processors']} "
        f"processors, {session['system']}, commit {session['commit'][:12]}"
        f"{' with changes' if 'changed' in session['commit'] else ''}."
    )


def _checks(content: Content) -> str:
    items = [_check(check) for check in content.checks]
    lacking = [f"no {name}: this experiment was not run" for name in content.missing]
    lacking += content.not_measured
    if lacking:
        entries = "".join(f"<li>{escape(line)}</li>" for line in lacking)
        items.append(f"<li>not measured:<ul>{entries}</ul></li>")
    return f'<h2 id="checks">Checks</h2><ul>{"".join(items)}</ul>'


def _check(check: Check) -> str:
    kind = {True: "holds", False: "fails", None: "note"}[check.holds]
    entries = "".join(f"<li>{escape(value)}</li>" for value in check.found.split("; "))
    name = escape(check.name)
    return f'<li><span class="{kind}">{check.word}</span>: {name}<ul>{entries}</ul></li>'


def _section(section: Section) -> str:
    figures = "\n".join(
        page.figure(chart.key, chart.title, svg_for_page(chart), chart.note)
        for chart in section.charts
    )
    tables = "\n".join(
        page.table_of(table, is_open=idx == 0) for idx, table in enumerate(section.tables)
    )
    return (
        f'<h2 id="{section.key}">{escape(section.title)}</h2><p>{page.prose(section.about)}</p>'
        f'<div class="figures">{figures}</div>\n{tables}'
    )


_FANOUT = (
    "One 1400-byte packet in, n copies out of the same veth port. A forwarder has one processor, "
    "load and sink the other; a BPF program at the sink counts the copies of each viewer and drops "
    "them, the same for all. Like is beside like: spinning with spinning, sleeping with sleeping."
)
_PIPELINES = (
    "The switch in memory, without ports: what a packet costs in a pipeline. Naive is the native "
    "engine with every optimisation off; each step adds one to those before it. Every variant gave "
    "the same packets as the interpreter. SFUs make a copy for each of 64 viewers of 1400-byte "
    "packets; L2L3-ACL is PISCES' benchmark, 64-byte packets, 1,000 ternary entries of which the "
    "last matches. Ticks are those of the time stamp counter: there are no hardware counters here."
)
_GROWTH = (
    "The switch in memory again; one thing grows and the rest stays. Dashed with hollow markers: "
    "the interpreter."
)
_OVERLOAD = (
    "A forwarder's capacity is the rate at which it makes the most copies; it is offered a tenth "
    "to ten times that. Solid: AF_XDP; dashed: AF_PACKET, and the interpreter, which has another "
    "marker."
)
_PKTSWITCH = (
    "pktswitch (Baltas and Xylomenos, ISCC 2015) is an SFU on sockets and the same on netmap: "
    "76 % less processing a packet, 89 % less delay. Here the relay by hand and the switch are "
    "each measured on UDP sockets and on AF_XDP."
)
_KNEE = (
    "The thesis' experiment at 4 Mbit/s, with viewers that are addresses on one sink: at how many "
    "the average delay passes 20 ms or a copy is lost."
)
