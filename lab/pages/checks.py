"""Checks whether the measurements fulfil the switch's promises (claims about it). No I/O."""

import math
from collections.abc import Iterator, Sequence

from lab.bench.matrix import COMPARED_FANOUT as COMPARED
from lab.figures import kernel as kernel_figures
from lab.figures.fanout import Beside, of_kind, row_of
from lab.figures.load import curve_name, curves, kept
from lab.figures.names import KINDS, OURS, OVS, PKTSWITCH, kind_name, name_of, number
from lab.figures.neobft import promises
from lab.figures.pipeline import name_of as workload_name
from lab.figures.pipeline import of_workload, with_role, workloads
from lab.figures.pisces import ENOUGH, points
from lab.pisces.switches import OFF, ON
from lab.results.benchmarks import (
    FanoutRow,
    JoinsRow,
    OverloadRow,
    PipelineRow,
    PiscesRow,
    PriorityRow,
    Results,
    ScalingRow,
    SwitchingRow,
)
from lab.results.statistics import median, ratio
from lab.results.verdicts import Promise

PKTSWITCH_SHARE_MIN = 0.9
DELAY_RATIO_MAX = 1.2
NAIVE_SHARE_MAX = 0.58
"""With all optimisations, the program may take at most this share of the time that it takes for
a packet without optimisations. PISCES' optimisations, some of which Reprise lacks, reduced 737
cycles a packet to 426."""
NS_PER_PACKET_MAX = 150.0
JOIN_MS_MAX = {"p50": 20.0, "p99": 100.0}
"""The longest time from the moment at which a join is due to the joiner's first media packet."""
PEAK_SHARE_MIN = 0.95
SPREAD_PCT_MAX = 2.0
ALIKE = 0.05
"""The most by which the urgent stream's loss may exceed the other stream's where packets have no
priority; each loss is a share of its stream's packets."""
Rate = FanoutRow | ScalingRow | SwitchingRow | PiscesRow
COMPARED_KINDS = tuple(kind for kind in KINDS if kind[0] != "udp")


def checks(results: Results) -> list[Promise]:
    """All checks of benchmarks, in the order of the report."""
    return [
        *_work_checks(results),
        *_fanout_checks(results.fanout, Beside(results.fanout_rounds)),
        *_pipeline_checks(results.pipeline),
        *_overload_checks(results.overload),
        *_priority_checks(results.priority),
        *_kernel_checks(results.kernel, Beside(results.kernel_rounds)),
        *_pisces_checks(results.pisces),
        *_neobft_checks(results),
        *_joins_checks(results.joins),
    ]


def check(
    name: str,
    values: Sequence[tuple[str, float, bool]],
    form: str = ".2f",
    *,
    is_of_speed: bool = True,
) -> Promise:
    """Makes a promise from values, each with a name and with whether it is good enough."""
    known = [(what, value, holds) for what, value, holds in values if not math.isnan(value)]
    found = "; ".join(
        f"{what} {number(value, form)}{'' if holds else ' (does not hold)'}"
        for what, value, holds in known
    )
    lacking = [what for what, value, _ in values if math.isnan(value)]
    if lacking:
        found = "; ".join(filter(None, [found, f"not measured: {', '.join(lacking)}"]))
    holds = all(holds for _, _, holds in known) and not lacking if known else None
    return Promise(name, holds, found or "nothing was measured", is_of_speed)


def _work_checks(results: Results) -> Iterator[Promise]:
    """Checks that every forwarder forwards at some rate and that no other process disturbed trials.

    Only the long trials, which decide a rate, are checked for disturbance.
    """
    measured: list[Rate] = [*results.fanout, *results.kernel, *results.scaling]
    measured += [*results.switching, *results.pisces]
    rates = [(_what(row), getattr(row, row.measured[0])) for row in measured]
    if rates:
        silent = [(what, rate, False) for what, rate in rates if not rate > 0]
        name = f"everything that is measured forwards without loss at some rate ({len(rates)} rows)"
        every = ("", float(len(rates)), True)
        yield check(name, silent or [every], ",.0f", is_of_speed=False)
    rounds: list[FanoutRow | ScalingRow | SwitchingRow] = [*results.fanout_rounds]
    rounds += [*results.kernel_rounds, *results.scaling_rounds, *results.switching_rounds]
    trials = [(_what(row), row.is_disturbed) for row in rounds if row.trial_s > 0]
    if trials:
        void = [(what, 1.0, False) for what, is_disturbed in trials if is_disturbed]
        name = f"nobody else used the processors in trials that decided a rate ({len(trials)})"
        yield check(name, void or [("", float(len(trials)), True)], ",.0f")


def _what(row: Rate) -> str:
    if isinstance(row, FanoutRow):
        return f"{name_of(row.row, row.engine)}, {row.fanout} copies:"
    if isinstance(row, ScalingRow):
        return f"{name_of(row.row, row.engine)}, {row.processors} processors:"
    return f"{row.program}, {row.switch}:"


def _fanout_checks(rows: Sequence[FanoutRow], beside: Beside) -> Iterator[Promise]:
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
    """Yields our native forwarders' values divided by a peer's, for each kind of port both have."""
    for kind in COMPARED_KINDS:
        found = of_kind(rows, kind)
        theirs = row_of(found, peer, "")
        for forwarder in OURS:
            ours = row_of(found, forwarder, "native")
            if theirs is not None and ours is not None:
                value = beside(ours, theirs, column)
                yield f"{name_of(forwarder)}, {kind_name(kind)}:", value


def _pipeline_checks(rows: Sequence[PipelineRow]) -> Iterator[Promise]:
    shares, times = [], []
    for workload in workloads(rows):
        if workload[0] != "l2l3_acl":
            continue
        found = of_workload(rows, workload)
        naive, best = with_role(found, "naive"), with_role(found, "all")
        if naive is None or best is None:
            continue
        share = ratio(best.ns_per_packet, naive.ns_per_packet)
        shares.append((f"{workload_name(workload)}:", share, share <= NAIVE_SHARE_MAX))
        ns = best.ns_per_packet
        times.append((f"{workload_name(workload)}, ns:", ns, ns < NS_PER_PACKET_MAX))
    if shares:
        yield check(
            f"L2L3-ACL: with all optimisations, also flow caches, prefetch and fusion, a packet "
            f"takes at most {NAIVE_SHARE_MAX:.0%} of the time that it takes without",
            shares,
        )
        limit = f"L2L3-ACL: under {NS_PER_PACKET_MAX:g} ns a packet without ports"
        yield check(limit, times, ".0f")


def _overload_checks(rows: Sequence[OverloadRow]) -> Iterator[Promise]:
    shares, spreads, lost = [], [], []
    for curve in curves(rows):
        name = f"{curve_name(curve[0])}, {curve[0].fanout} copies:"
        counted = [row.vanished for row in curve if not math.isnan(row.vanished)]
        if counted:
            lost.append((name, sum(counted), sum(counted) == 0))
        if curve[0].row not in OURS:
            continue
        share = kept(curve)
        spread = max(row.viewers_spread_pct for row in curve)
        shares.append((name, share, share >= PEAK_SHARE_MIN))
        spreads.append((name, spread, spread <= SPREAD_PCT_MAX))
    if shares:
        yield check(f"overload: at least {PEAK_SHARE_MIN:.0%} of the peak rate stays", shares)
        name = f"overload: a viewer gets at most {SPREAD_PCT_MAX:g} % fewer copies than another"
        yield check(name, spreads)
    if lost:
        name = "overload: nothing is lost that is not counted"
        yield check(name, lost, ".0f", is_of_speed=False)


def _priority_checks(rows: Sequence[PriorityRow]) -> Iterator[Promise]:
    named = [
        (
            f"{name_of(row.row, row.engine)}, {row.fanout} copies, "
            f"{row.offered_over_capacity:g} times capacity:",
            row,
        )
        for row in rows
    ]
    if named:
        yield check(
            "two streams: nothing is lost that is not counted",
            [(what, row.vanished, row.vanished == 0) for what, row in named],
            ",.0f",
            is_of_speed=False,
        )
        yield check(
            "two streams: copies of both arrive (of the one that loses more, in %)",
            [
                (what, 100 * (1 - max(row.audio_loss, row.video_loss)), is_some)
                for what, row in named
                for is_some in (max(row.audio_loss, row.video_loss) < 1,)
            ],
            is_of_speed=False,
        )
    # Packets that the kernel forwards wait in no queue and so have no priority: both streams lose
    # about the same share.
    shared = [(what, row) for what, row in named if row.engine == "kernel"]
    if shared:
        yield check(
            "two streams in the kernel: the urgent one loses about the same share (points more)",
            [
                (
                    what,
                    100 * (row.audio_loss - row.video_loss),
                    row.audio_loss <= row.video_loss + ALIKE,
                )
                for what, row in shared
            ],
        )
    queued = [row for row in rows if row.engine != "kernel"]
    if queued:
        yield check(
            "overload: the urgent stream loses nothing (its loss in %)",
            [
                (
                    f"{row.fanout} copies, {row.offered_over_capacity:g} times capacity:",
                    100 * row.audio_loss,
                    row.audio_loss == 0,
                )
                for row in queued
            ],
        )


def _kernel_checks(rows: Sequence[FanoutRow], beside: Beside) -> Iterator[Promise]:
    for name, values in kernel_figures.promises(rows, beside):
        yield check(name, values)


def _neobft_checks(results: Results) -> Iterator[Promise]:
    measured = (results.neobft, results.neobft_passes, results.neobft_signatures)
    for name, values in promises(*measured):
        yield check(name, values)


def _pisces_checks(rows: Sequence[PiscesRow]) -> Iterator[Promise]:
    for caches in (OFF, ON) if rows else ():
        yield check(
            f"flow caches {caches}: optimised P4 at least {ENOUGH:.0%} of Open vSwitch's rate",
            [(what, share, share >= ENOUGH) for what, share in points(rows, caches)],
        )


def _joins_checks(rows: Sequence[JoinsRow]) -> Iterator[Promise]:
    if not rows:
        return
    at = f"{rows[0].joins_per_s} joins a second, {rows[0].participants} participants"
    for name, limit_ms in JOIN_MS_MAX.items():
        found = median(getattr(row, f"{name}_ms") for row in rows)
        yield check(
            f"{at}: first packet within {limit_ms:g} ms ({name})",
            [("", found, found < limit_ms)],
            ".1f",
        )
    for what in ("failed", "lost", "foreign"):
        values = [
            (f"run {row.round + 1}:", float(getattr(row, what)), getattr(row, what) == 0)
            for row in rows
        ]
        yield check(f"{at}: none {what}", values, ".0f", is_of_speed=False)
