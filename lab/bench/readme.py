"""README's section on performance, made from the kept runs. Pure."""

from collections.abc import Sequence

from lab.bench.checks import Check, checks
from lab.bench.fanout_figures import COMPARED, Beside, of_kind, row_of
from lab.bench.names import NAMES, OVS, PKTSWITCH, RELAY, count, kind_name, number, ratio
from lab.bench.pipeline_figures import name_of, of_workload, with_role, workloads
from lab.bench.results import FanoutRow, Results, SwitchingRow
from lab.bench.switching_figures import PROGRAMS
from lab.pisces.switches import KERNEL_NAME, LINUX_NAME, OVS_NAME, REPRISE_NAME
from lab.study.results import MUSICIANS_MS, Series, label_of

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


class MarkerError(ValueError):
    """README lacks the section's marks."""


def replaced(readme: str, section: str) -> str:
    """The README with the new section between its marks."""
    before, begin, rest = readme.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MarkerError(f"README.md: expected the lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{section}\n{END}{after}"


def section_of(results: Results | None, folder: str, series: Sequence[Series] = ()) -> str:
    """The section; `folder` is the run's, from README's place; `series` are of its loads."""
    if results is None:
        return NOTHING_KEPT
    made = checks(results)
    parts = [
        f"One run of `make bench` on {results.session['processor']}, "
        f"{results.session['processors']} processors, {results.session['system'].split('-')[0]} "
        f"{results.session['system'].split('-')[1]}: [{folder}]({folder}/report.html).",
        *_fanout(results.fanout, Beside(results.fanout_rounds), folder),
        *_kernel(results.kernel, Beside(results.kernel_rounds)),
        *_switching(results.switching),
        *_pipelines(results),
        *_served(series),
        _promises(made),
    ]
    return "\n\n".join(parts)


def kernel_of(results: Results, folder: str) -> str:
    """README's text about a kept study of the kernel engine; `folder` is relative to README."""
    parts = [
        f"One run of `./reprise-lab run kernel`: [{folder}]({folder}/report.html).",
        *_kernel(results.kernel, Beside(results.kernel_rounds)),
        *_switching(results.switching),
    ]
    return "\n\n".join(parts)


def thesis_of(folder: str, figure: str) -> str:
    """README's text about the kept study of the thesis; `folder` is relative to README."""
    return (
        f"One run of `make thesis`, whole: [{folder}]({folder}/report.html). Average delay to the "
        "last of n copies at 4 Mbit/s, beside the thesis' BMv2:\n\n"
        f"![Average delay against viewers, ours and the thesis']({folder}/figures/{figure}.svg)"
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
            cells.append(f"{count(row.copies_per_s_lossless)}{bracket}")
        if any(cells):
            named = NAMES[forwarder] + (f", {engine}" if engine else "")
            lines.append(f"| {named} | {' | '.join(cells)} |")
    lines += ["", "In brackets: beside pktswitch, by hand, on the same kind of port."]
    figure = f"![Copies a second without loss against copies]({folder}/figures/{FIGURE}.svg)"
    return ["\n".join(lines), figure]


def _kernel(rows: Sequence[FanoutRow], beside: Beside) -> list[str]:
    fanouts = sorted({row.fanout for row in rows if row.engine == "kernel"})
    if not fanouts:
        return []
    lines = [
        "Copies a second without loss with the program in the kernel's receive path (`--engine "
        "kernel`), beside a relay in XDP by hand, which does what an SFU needs, and AF_XDP:",
        "",
        f"| copies of each packet | {' | '.join(map(str, fanouts))} |",
        f"|---|{'---:|' * len(fanouts)}",
    ]
    peers = {n: row_of(rows, RELAY, "", n) for n in fanouts}
    for forwarder, engine in (
        ("p4_replication", "kernel"),
        (RELAY, ""),
        ("p4_replication", "native"),
    ):
        cells = []
        for fanout, peer in peers.items():
            row = row_of(rows, forwarder, engine, fanout)
            if row is None:
                cells.append("")
                continue
            is_compared = peer is not None and peer is not row
            share = f" ({number(beside(row, peer), '.2f')})" if peer and is_compared else ""
            cells.append(f"{count(row.copies_per_s_lossless)}{share}")
        lines.append(
            f"| {NAMES[forwarder]}{f', {engine}' if engine else ''} | {' | '.join(cells)} |"
        )
    lines += ["", "In brackets: beside the relay."]
    return ["\n".join(lines)]


def _switching(rows: Sequence[SwitchingRow]) -> list[str]:
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
        rates = {row.switch: row.packets_per_s_lossless for row in rows if row.program == program}
        switches = (KERNEL_NAME, LINUX_NAME, REPRISE_NAME, OVS_NAME)
        cells = (count(rates[one]) if one in rates else "" for one in switches)
        lines.append(f"| {PROGRAMS.get(program, program)} | {' | '.join(cells)} |")
    lines += ["", "Linux' own is its bridge for L2, and its routing for L2L3."]
    return ["\n".join(lines)]


def _pipelines(results: Results) -> list[str]:
    lines = []
    for workload in workloads(results.pipeline):
        found = of_workload(results.pipeline, workload)
        reference, naive, best = (with_role(found, role) for role in ("reference", "naive", "all"))
        if reference and naive and best:
            cells = (f"{row.ns_per_packet:,.0f}" for row in (reference, naive, best))
            share = number(ratio(best.ns_per_packet, naive.ns_per_packet), ".0%")
            lines.append(f"| {name_of(workload)} | {' | '.join(cells)} | {share} |")
    if not lines:
        return []
    head = (
        "Nanoseconds a packet without ports (SFUs: 64 copies):\n\n"
        "| pipeline | interpreter | native, naive | native | of naive |\n|---|---:|---:|---:|---:|"
    )
    return ["\n".join([head, *lines])]


def _served(series: Sequence[Series]) -> list[str]:
    if not series:
        return []
    listed = "; ".join(
        f"{label_of(one.row, one.variant)}: {one.served(MUSICIANS_MS)}" for one in series
    )
    return [
        f"Viewers of a 4 Mbit/s stream served without loss, 99 % of packets within "
        f"{MUSICIANS_MS:g} ms (the thesis' BMv2: 3 on average): {listed}."
    ]


def _promises(made: Sequence[Check]) -> str:
    by_verdict = {
        holds: [check.name for check in made if check.holds is holds]
        for holds in (True, False, None)
    }
    parts = [f"Of {len(made)} promises {len(by_verdict[True])} hold in this run"]
    if by_verdict[False]:
        parts.append(f"these do not: {'; '.join(by_verdict[False])}")
    if by_verdict[None]:
        parts.append(f"not measured: {'; '.join(by_verdict[None])}")
    return ". ".join(part[0].upper() + part[1:] for part in parts) + "."
