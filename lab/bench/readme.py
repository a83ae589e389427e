"""README's section on performance, made from the kept runs. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lab.bench.fanout_figures import COMPARED, Beside, of_kind, rate_of, row_of
from lab.bench.kernel_figures import at_sink
from lab.bench.load import TCX_SINK, XDP_SINK
from lab.bench.names import (
    NAMES,
    OVS,
    PKTSWITCH,
    PORTS,
    RELAY,
    count,
    kind_name,
    kind_of,
    name_of,
    number,
    ratio,
)
from lab.bench.pipeline_figures import PISCES_ROLE, of_workload, with_role, workloads
from lab.bench.pipeline_figures import name_of as workload_name
from lab.bench.results import FanoutRow, Results, SwitchingRow
from lab.bench.switching_figures import PROGRAMS
from lab.bench.switching_figures import Beside as SwitchingBeside
from lab.pisces.switches import KERNEL_NAME, LINUX_NAME, OVS_NAME, REPRISE_NAME
from lab.rows import ROWS as LAB_ROWS
from lab.rows import in_kernel
from lab.study.results import MUSICIANS_MS
from lab.study.served import ServedRow
from lab.study.verdicts import Verdict

BEGIN = "<!-- made by `./reprise-lab keep`, not by hand -->"
END = "<!-- end -->"
FIGURE = "fanout-rate-afxdp-spin"
SHOWN_KINDS = (("afxdp", "spin"), ("afpacket", "spin"), ("afpacket", "sleep"))
ROWS = (
    ("p4_replication", "native"),
    ("p4_recirculation", "native"),
    ("p4_replication", "interpreter"),
    (PKTSWITCH, ""),
    (OVS, ""),
    ("bmv2_replication", "one processor"),
    ("bmv2_recirculation", "one processor"),
)
NOTHING_KEPT = "No run is kept in `studies/` yet; `make bench` makes one."
BENCHMARK, KERNEL, VIEWERS, THESIS, SCALING = "bench", "kernel", "viewers", "thesis", "scaling"
COMMANDS = {BENCHMARK: "make bench", THESIS: "make thesis"}
"""Of other studies it is `./reprise-lab run NAME`."""


class MarkerError(ValueError):
    """README lacks the section's marks."""


@dataclass(frozen=True, slots=True)
class KeptStudy:
    """What README and docs/performance.md tell of a kept study."""

    name: str
    where: str
    """Its folder, from README's place."""
    session: Mapping[str, str]
    """The last one's facts."""
    results: Results
    verdicts: Sequence[Verdict] = ()
    served: Sequence[ServedRow] = ()
    figures: Mapping[str, str] = field(default_factory=dict)

    @property
    def link(self) -> str:
        """For people."""
        return f"[{self.where}]({self.where}/report.html)"

    @property
    def command(self) -> str:
        """What makes it."""
        return COMMANDS.get(self.name, f"./reprise-lab run {self.name}")

    @property
    def commit(self) -> str:
        """The first digits of the commit that was measured."""
        return self.session.get("commit", "unknown")[:12]


def replaced(readme: str, section: str) -> str:
    """The README with the new section between its marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MarkerError(f"README.md: expected the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{section}\n{END}{after}"


def section_of(kept: Sequence[KeptStudy]) -> str:
    """The section."""
    if not kept:
        return NOTHING_KEPT
    of = {study.name: study for study in kept}
    parts = [_holds(kept)]
    if bench := of.get(BENCHMARK):
        results = bench.results
        parts += [
            _measured(bench),
            *_fanout(results.fanout, Beside(results.fanout_rounds), bench.where),
            *_pipelines(results),
        ]
    if kernel := of.get(KERNEL):
        results = kernel.results
        parts += [
            _measured(kernel),
            *_kernel(results.kernel, Beside(results.kernel_rounds)),
            *_switching(results.switching, SwitchingBeside(results.switching_rounds)),
        ]
    if scaling := of.get(SCALING):
        parts += [_measured(scaling), *scaling_table(scaling.results)]
    if viewers := of.get(VIEWERS):
        parts += [_measured(viewers), *_served(viewers.served)]
    if thesis := of.get(THESIS):
        parts.append(_thesis(thesis))
    return "\n\n".join(parts)


def _measured(study: KeptStudy) -> str:
    facts = study.session
    system = " ".join(facts["system"].split("-")[:2])
    return (
        f"One run of `{study.command}` at commit {study.commit} on {facts['processor']}, "
        f"{facts['processors']} processors, {system}: {study.link}."
    )


def _holds(kept: Sequence[KeptStudy]) -> str:
    """All checks of all kept studies: what does not hold beside what does."""
    lines = [
        "All checks of all studies that are kept:",
        "",
        "| study | commit | hold | do not hold |",
        "|---|---|---:|---|",
    ]
    for study in sorted(kept, key=lambda one: one.name):
        known = [one for one in study.verdicts if one.holds is not None]
        broken = [one.name for one in known if not one.holds]
        n_hold = f"{len(known) - len(broken)} of {len(known)}"
        what = "; ".join(one.replace("|", "\\|") for one in broken) or "-"
        name = f"[{study.name}]({study.where}/report.html)"
        lines.append(f"| {name} | {study.commit} | {n_hold} | {what} |")
    return "\n".join(lines)


def _thesis(study: KeptStudy) -> str:
    return (
        f"One run of `{study.command}`, whole, at commit {study.commit}: {study.link}. Average "
        "delay to the last of n copies at 4 Mbit/s, beside the thesis' BMv2:\n\n"
        f"![Average delay against viewers, ours and the thesis']({study.where}/figures/"
        f"{study.figures['thesis']}.svg)"
    )


def _fanout(rows: Sequence[FanoutRow], beside: Beside, folder: str) -> list[str]:
    if not any(row.fanout == COMPARED for row in rows):
        return []
    kinds = [kind for kind in SHOWN_KINDS if row_of(of_kind(rows, kind), PKTSWITCH, "")]
    lines = [
        f"Copies a second without loss, one 1400-byte packet in, {COMPARED} copies out of the same "
        "veth port, one core:",
        "",
        f"| | {' | '.join(kind_name(kind) for kind in kinds)} |",
        f"|---|{'---:|' * len(kinds)}",
    ]
    for forwarder, engine in ROWS:
        cells = []
        for kind in kinds:
            row = row_of(of_kind(rows, kind), forwarder, engine)
            peer = row_of(of_kind(rows, kind), PKTSWITCH, "")
            if row is None or peer is None:
                cells.append("")
                continue
            share = number(beside(row, peer), ".2f")
            bracket = "" if forwarder == PKTSWITCH else f" ({share})"
            cells.append(f"{rate_of(row)}{bracket}")
        if any(cells):
            named = NAMES[forwarder] + (f", {engine}" if engine else "")
            lines.append(f"| {named} | {' | '.join(cells)} |")
    lines += [
        "",
        "In brackets: beside pktswitch, by hand, on the same kind of port; set by set where both "
        f"take turns, else of the medians.{_trials(rows)}",
    ]
    figure = f"![Copies a second without loss against copies]({folder}/figures/{FIGURE}.svg)"
    return ["\n".join(lines), figure]


def _trials(rows: Sequence[FanoutRow | SwitchingRow]) -> str:
    """How long what is shown was tried; older files do not say."""
    seconds = {row.trial_s for row in rows if row.trial_s > 0}
    if not seconds:
        return ""
    sets = max(row.sets for row in rows)
    span = " to ".join(f"{one:g}" for one in sorted({min(seconds), max(seconds)}))
    return (
        f" Trials that decide last {span} s (RFC 2544 asks for 60), and figures are medians of up "
        f"to {sets} sets."
    )


def _kernel(rows: Sequence[FanoutRow], beside: Beside) -> list[str]:
    fanouts = sorted({row.fanout for row in rows if row.engine == "kernel"})
    if not fanouts:
        return []
    sinks = [sink for sink in (XDP_SINK, TCX_SINK) if at_sink(rows, sink)]
    several = len(sinks) > 1
    heads = [f"{n}, {SINK_NAMES[sink]}" if several else f"{n}" for sink in sinks for n in fanouts]
    lines = [
        "Copies a second without loss with the program in the kernel's receive path (`--engine "
        "kernel`), beside a relay in XDP by hand, which does what an SFU needs, and AF_XDP:",
        "",
        f"| copies of each packet{', sink' if several else ''} | {' | '.join(heads)} |",
        f"|---|{'---:|' * len(heads)}",
    ]
    for forwarder, engine in (
        ("p4_replication", "kernel"),
        (RELAY, ""),
        ("p4_replication", "native"),
    ):
        cells = []
        for sink in sinks:
            here = at_sink(rows, sink)
            for fanout in fanouts:
                row = row_of(here, forwarder, engine, fanout)
                peer = row_of(here, RELAY, "", fanout)
                if row is None:
                    cells.append("")
                    continue
                is_compared = peer is not None and peer is not row
                share = f" ({number(beside(row, peer), '.2f')})" if peer and is_compared else ""
                cells.append(f"{rate_of(row)}{share}")
        lines.append(
            f"| {NAMES[forwarder]}{f', {engine}' if engine else ''} | {' | '.join(cells)} |"
        )
    note = (
        "In brackets: beside the relay at the same sink. XDP counts a copy as it comes out of the "
        "device; TCX counts it behind a packet that the kernel makes of it, which is a receiver's "
        "work and the same for all."
        if several
        else "In brackets: beside the relay. In this run what is redirected in the kernel was "
        "counted by XDP, and AF_XDP's copies behind a kernel packet."
    )
    lines += ["", f"{note}{_trials(rows)}"]
    return ["\n".join(lines)]


SINK_NAMES = {XDP_SINK: "XDP", TCX_SINK: "TCX"}


def _switching(rows: Sequence[SwitchingRow], beside: SwitchingBeside) -> list[str]:
    programs = list(dict.fromkeys(row.program for row in rows))
    if not programs:
        return []
    lines = [
        f"{rows[0].frame_bytes}-byte packets a second without loss from one port to another:",
        "",
        "| | kernel engine | Linux' own | native engine, AF_XDP | Open vSwitch, AF_XDP |",
        "|---|---:|---:|---:|---:|",
    ]
    for program in programs:
        found = {row.switch: row for row in rows if row.program == program}
        ovs = found.get(OVS_NAME)
        cells = []
        for switch in (KERNEL_NAME, LINUX_NAME, REPRISE_NAME, OVS_NAME):
            row = found.get(switch)
            share = (
                f" ({number(beside(row, ovs), '.2f')})" if row and ovs and row is not ovs else ""
            )
            cells.append(f"{rate_of(row)}{share}" if row else "")
        lines.append(f"| {PROGRAMS.get(program, program)} | {' | '.join(cells)} |")
    lines += [
        "",
        "In brackets: beside Open vSwitch. Linux' own is its bridge for L2, and its routing for "
        f"L2L3.{_trials(rows)}",
    ]
    return ["\n".join(lines)]


def _pipelines(results: Results) -> list[str]:
    lines = []
    for workload in workloads(results.pipeline):
        found = of_workload(results.pipeline, workload)
        roles = ("reference", "naive", PISCES_ROLE, "all")
        reference, naive, pisces, best = (with_role(found, role) for role in roles)
        if reference and naive and best:
            shown = (reference, naive, pisces, best)
            cells = [f"{row.ns_per_packet:,.0f}" if row else "" for row in shown]
            shares = [
                number(ratio(row.ns_per_packet, naive.ns_per_packet), ".0%") if row else ""
                for row in (pisces, best)
            ]
            cells[2] += f" ({shares[0]})" if pisces else ""
            cells[3] += f" ({shares[1]})"
            lines.append(f"| {workload_name(workload)} | {' | '.join(cells)} |")
    if not lines:
        return []
    head = (
        "Nanoseconds a packet without ports (SFUs: 64 copies):\n\n"
        "| pipeline | interpreter | native, naive | with PISCES' optimisations | with all |\n"
        "|---|---:|---:|---:|---:|"
    )
    note = (
        "\nIn brackets: of naive. PISCES' are specialisation of actions and of the parser, inline "
        "editing and incremental checksums; flow caches, prefetch and fusion come on top."
    )
    return ["\n".join([head, *lines, note])]


def _served(rows: Sequence[ServedRow]) -> list[str]:
    """Each row of the study a column, each way to run it a line."""
    shown = [one for one in rows if one.limit_ms == MUSICIANS_MS]
    if not shown:
        return []
    names = list(dict.fromkeys(one.row for one in shown))
    lines = [
        f"Viewers of a stream of {shown[0].part.partition('mbps')[0]} Mbit/s served without loss, "
        f"99 % of packets within {MUSICIANS_MS:g} ms:",
        "",
        f"| | {' | '.join(LAB_ROWS[name].label for name in names)} |",
        f"|---|{'---:|' * len(names)}",
    ]
    found = {(_way(one), one.row): str(one.served) for one in shown}
    for way in dict.fromkeys(_way(one) for one in shown):
        cells = (found.get((way, name), "") for name in names)
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return ["\n".join(lines)]


def _way(one: ServedRow) -> str:
    """How a row is run; the native engine is the usual one."""
    engine = one.engine if one.engine != "native" else ""
    batches = "in batches" if one.port == "udp_batched" else ""
    where = kind_name(kind_of(one.port, one.wait))
    return ", ".join(filter(None, (engine, where, batches))) or "as it is"


def scaling_table(results: Results) -> list[str]:
    """Copies a second by processors."""
    rows = results.scaling
    if not rows:
        return []
    points = sorted({row.processors for row in rows})
    names = list(dict.fromkeys((row.row, row.engine, row.port) for row in rows))
    lines = [
        f"Copies a second without loss on more processors, {rows[0].fanout} copies of each packet; "
        "each processor has a stream and a port (in the kernel), or a worker and a queue (AF_XDP):",
        "",
        f"| processors | {' | '.join(map(str, points))} |",
        f"|---|{'---:|' * len(points)}",
    ]
    for name, engine, port in names:
        of = {
            row.processors: row
            for row in rows
            if (row.row, row.engine, row.port) == (name, engine, port)
        }
        cells = (count(of[n].copies_per_s_lossless) if n in of else "" for n in points)
        # What is in the kernel says so by its name.
        beside = "" if port == in_kernel.PORT else f", {PORTS[port]}"
        lines.append(f"| {name_of(name, engine)}{beside} | {' | '.join(cells)} |")
    return ["\n".join(lines)]
