"""Checks the measurements against the switch's promises. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.bench import kernel_figures
from lab.bench.fanout_figures import COMPARED, Beside, of_kind, row_of
from lab.bench.load_figures import curve_name, curves, kept
from lab.bench.names import KINDS, NAMES, OURS, OVS, PKTSWITCH, kind_name, number, ratio
from lab.bench.pipeline_figures import name_of, of_workload, with_role, workloads
from lab.bench.results import (
    FanoutRow,
    OverloadRow,
    PipelineRow,
    PriorityRow,
    Results,
)
from lab.neobft.figures import promises
from lab.pisces.figures import ENOUGH, points
from lab.pisces.results import PiscesRow
from lab.pisces.switches import OFF, ON

PKTSWITCH_SHARE_MIN = 0.9
DELAY_RATIO_MAX = 1.2
NAIVE_SHARE_MAX = 0.58
"""PISCES went from 737 to 426 cycles."""
NS_PER_PACKET_MAX = 150.0
PEAK_SHARE_MIN = 0.95
SPREAD_PCT_MAX = 2.0
COMPARED_KINDS = tuple(kind for kind in KINDS if kind[0] != "udp")


@dataclass(frozen=True, slots=True)
class Check:
    """A promise, whether it holds (None: it was not measured), and the measured values."""

    name: str
    holds: bool | None
    found: str

    @property
    def word(self) -> str:
        """For people."""
        return "not measured" if self.holds is None else "holds" if self.holds else "does not hold"


def checks(results: Results) -> list[Check]:
    """All of them, in the order of the report."""
    return [
        *_fanout_checks(results.fanout, Beside(results.fanout_rounds)),
        *_pipeline_checks(results.pipeline),
        *_overload_checks(results.overload),
        *_priority_checks(results.priority),
        *_kernel_checks(results.kernel, Beside(results.kernel_rounds)),
        *_pisces_checks(results.pisces),
        *_neobft_checks(results),
    ]


def check(name: str, values: Sequence[tuple[str, float, bool]], form: str = ".2f") -> Check:
    """From named values and whether each is as it should be."""
    known = [(what, value, holds) for what, value, holds in values if not math.isnan(value)]
    found = "; ".join(
        f"{what} {number(value, form)}{'' if holds else ' (does not hold)'}"
        for what, value, holds in known
    )
    lacking = [what for what, value, _ in values if math.isnan(value)]
    if lacking:
        found = "; ".join(filter(None, [found, f"not measured: {', '.join(lacking)}"]))
    holds = all(holds for _, _, holds in known) and not lacking if known else None
    return Check(name, holds, found or "nothing was measured")


def _fanout_checks(rows: Sequence[FanoutRow], beside: Beside) -> Iterator[Check]:
    if not rows:
        return
    at = f"at {COMPARED} copies, without loss"
    yield check(
        f"{at}: at least {PKTSWITCH_SHARE_MIN:.0%} of the rate of pktswitch",
        [(what, r, r >= PKTSWITCH_SHARE_MIN) for what, r in _ratios(rows, beside, PKTSWITCH)],
    )
    yield check(
        f"{at}: ahead of Open vSwitch on the same kind of port",
        [(what, r, r > 1.0) for what, r in _ratios(rows, beside, OVS)],
    )
    for column, which in (("first_copy_p50_us", "first"), ("last_copy_p50_us", "last")):
        yield check(
            f"at {COMPARED} copies: the {which} copy's median delay within {DELAY_RATIO_MAX:g} "
            "times pktswitch's",
            [
                (what, r, r <= DELAY_RATIO_MAX)
                for what, r in _ratios(rows, beside, PKTSWITCH, column)
            ],
        )


def _ratios(
    rows: Sequence[FanoutRow],
    beside: Beside,
    peer: str,
    column: str = "copies_per_s_lossless",
) -> Iterator[tuple[str, float]]:
    """Our native rows over a peer's, of each kind of port that both have."""
    for kind in COMPARED_KINDS:
        found = of_kind(rows, kind)
        theirs = row_of(found, peer, "")
        for forwarder in OURS:
            ours = row_of(found, forwarder, "native")
            if theirs is not None and ours is not None:
                value = beside(ours, theirs, column)
                yield f"{NAMES[forwarder]}, {kind_name(kind)}:", value


def _pipeline_checks(rows: Sequence[PipelineRow]) -> Iterator[Check]:
    shares, times = [], []
    for workload in workloads(rows):
        if workload[0] != "l2l3_acl":
            continue
        found = of_workload(rows, workload)
        naive, best = with_role(found, "naive"), with_role(found, "all")
        if naive is None or best is None:
            continue
        share = ratio(best.ns_per_packet, naive.ns_per_packet)
        shares.append((f"{name_of(workload)}:", share, share <= NAIVE_SHARE_MAX))
        ns = best.ns_per_packet
        times.append((f"{name_of(workload)}, ns:", ns, ns < NS_PER_PACKET_MAX))
    if shares:
        yield check(f"L2L3-ACL: optimised at most {NAIVE_SHARE_MAX:.0%} of naive", shares)
        limit = f"L2L3-ACL: under {NS_PER_PACKET_MAX:g} ns a packet without ports"
        yield check(limit, times, ".0f")


def _overload_checks(rows: Sequence[OverloadRow]) -> Iterator[Check]:
    shares, spreads, lost = [], [], []
    for fanout in sorted({row.fanout for row in rows}):
        for key, curve in curves(rows, fanout).items():
            if key[0] not in OURS:
                continue
            name = f"{curve_name(key)}, {fanout} copies:"
            share = kept(curve)
            spread = max(row.viewers_spread_pct for row in curve)
            vanished = sum(row.vanished for row in curve)
            shares.append((name, share, share >= PEAK_SHARE_MIN))
            spreads.append((name, spread, spread <= SPREAD_PCT_MAX))
            lost.append((name, vanished, vanished == 0))
    if shares:
        yield check(f"overload: at least {PEAK_SHARE_MIN:.0%} of the peak rate stays", shares)
        yield check(f"overload: viewers differ by at most {SPREAD_PCT_MAX:g} % of copies", spreads)
        yield check("overload: nothing is lost that is not counted", lost, ".0f")


def _priority_checks(rows: Sequence[PriorityRow]) -> Iterator[Check]:
    # What the kernel forwards has no queue, and so no priority.
    queued = [row for row in rows if row.engine != "kernel"]
    if queued:
        yield check(
            "overload: the urgent stream loses nothing, in %",
            [
                (
                    f"{row.fanout} copies, {row.offered_over_capacity:g} times capacity:",
                    100 * row.audio_loss,
                    row.audio_loss == 0,
                )
                for row in queued
            ],
        )


def _kernel_checks(rows: Sequence[FanoutRow], beside: Beside) -> Iterator[Check]:
    for name, values in kernel_figures.promises(rows, beside):
        yield check(name, values)


def _neobft_checks(results: Results) -> Iterator[Check]:
    measured = (results.neobft, results.neobft_passes, results.neobft_signatures)
    for name, values in promises(*measured):
        yield check(name, values)


def _pisces_checks(rows: Sequence[PiscesRow]) -> Iterator[Check]:
    for caches in (OFF, ON) if rows else ():
        yield check(
            f"flow caches {caches}: optimised P4 at least {ENOUGH:.0%} of Open vSwitch's rate",
            [(what, share, share >= ENOUGH) for what, share in points(rows, caches)],
        )
