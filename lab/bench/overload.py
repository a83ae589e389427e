"""Overload: offers more packets than the forwarders can carry.

Each forwarder is offered rates from a tenth of its capacity to ten times its capacity. As the
offered rate rises, the rate of copies must rise too until the capacity is reached, and it must not
fall when still more is offered. All viewers must lose about the same share, and the switch must
count every loss.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

from lab.bench import load
from lab.bench.cells import Failures, label_of, measured
from lab.bench.forwarders import Forwarder, Running, forwarders_of, running
from lab.bench.noise import undisturbed
from lab.bench.search import FULL, Trial, drive, peak_search
from lab.counters import Counters, device_drops, device_refusals, read_metrics
from lab.results.benchmarks import OverloadRow
from lab.results.statistics import merged, percentile_or_nan
from lab.rows import ROWS
from lab.sites import OnePort

FANOUTS = (8, 64)
OFFERED = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0, 1.5, 2.0, 4.0, 10.0)
"""The offered rates, as multiples of the forwarder's capacity (see `capacity`)."""
STEP_S = 1.0
SPARE_S = 0.25
"""How long a step takes besides offering."""
SWEEPS = 3
"""How often all rates are offered, one after the other. The results are the medians, because the
machine's speed changes from second to second."""
PAIRS = 6
"""After the sweeps, the highest offered rate and the rate at which the most copies arrived are
offered right after each other, this many times."""
CAPACITY_S = 16.0
"""About how long it takes to find the capacity."""
CELL_S = (SWEEPS * len(OFFERED) + 2 * PAIRS) * (STEP_S + SPARE_S) + CAPACITY_S


def forwarders() -> list[Forwarder]:
    """The forwarders to overload: each row (SFU), in the variants that its `Row.overload` names."""
    return [one for name, row in ROWS.items() for one in forwarders_of(name, row.overload)]


@dataclass(frozen=True, slots=True)
class Moment:
    counters: Counters | None
    wire_drops: int
    refused: int = 0
    """Packets that the SFU's end of the veth pair refused, because the kernel was behind."""


def look(site: OnePort, set_up: Running, *, is_in_kernel: bool) -> Moment:
    """Reads all counters.

    Refused packets are counted only if `is_in_kernel`; otherwise the load offers them again.
    """
    counters = read_metrics(site.sfu) if set_up.has_metrics else None
    link = site.links[0]
    wire_drops = device_drops(site.sfu, link.sfu_interface)
    refused = device_refusals(site.hosts, link.host_interface) if is_in_kernel else 0
    return Moment(counters, wire_drops, refused)


def vanished(run: load.Run, before: Moment, after: Moment) -> float:
    """How many packets and copies were lost uncounted; NaN if the forwarder has no counters."""
    if before.counters is None or after.counters is None:
        return float("nan")
    counted = after.counters.since(before.counters)
    n_wire = after.wire_drops - before.wire_drops
    offered = run.sent + run.audio_sent
    n_refused = after.refused - before.refused
    on_the_way_in = max(0, abs(offered - counted.received - counted.receive_drops) - n_refused)
    came = run.copies + run.audio_copies + run.others
    on_the_way_out = max(0, abs(counted.sent - came) - n_wire)
    return on_the_way_in + abs(counted.vanished_inside) + on_the_way_out


def counted_drops(before: Moment, after: Moment) -> float:
    """How many packets the switch counted as dropped; NaN if the forwarder has no counters."""
    if before.counters is None or after.counters is None:
        return float("nan")
    return sum(after.counters.since(before.counters).drops.values())


def _offer(
    forwarder: Forwarder, site: OnePort, fanout: int, rate_pps: float, seconds: float
) -> tuple[load.Run, float]:
    """Offers one rate; returns the result and the p99 delay of packets' last copies, in us."""
    run, samples = load.sampled(
        site, fanout, rate_pps, seconds, is_in_kernel=forwarder.is_in_kernel
    )
    last = [sample.last_copy_ns / 1e3 for sample in samples if sample.copies]
    return run, percentile_or_nan(last, 99)


def capacity(offer: Callable[[Trial], load.Run], n_viewers: int) -> float:
    """Finds the rate of packets a second at which the most copies arrive.

    `offer` makes one trial. The trial's rate is in copies a second.

    The search begins below the capacity, because a forwarder whose rate falls under overload would
    otherwise not show its peak.
    """
    return max(1.0, drive(peak_search(FULL), offer)) / n_viewers


def _rated(
    site: OnePort,
    set_up: Running,
    cell: tuple[Forwarder, int, float],
    rate_pps: float,
    seconds: float,
) -> OverloadRow:
    forwarder, fanout, times = cell
    before = look(site, set_up, is_in_kernel=forwarder.is_in_kernel)
    run, last_copy_p99_us = _offer(forwarder, site, fanout, rate_pps, seconds)
    after = look(site, set_up, is_in_kernel=forwarder.is_in_kernel)
    return OverloadRow(
        **asdict(forwarder),
        fanout=fanout,
        offered_over_capacity=times,
        copies_per_s=run.copies_per_s,
        loss=run.loss,
        last_copy_p99_us=last_copy_p99_us,
        offered_pps=run.sent / run.seconds,
        viewers_spread_pct=run.viewers_spread_pct,
        drops=counted_drops(before, after),
        vanished=vanished(run, before, after),
        of_peak=float("nan"),
    )


def share_of_peak(
    rate: Callable[[float], float], curve: Sequence[OverloadRow], pairs: int = PAIRS
) -> float:
    """The share of the peak rate that remains at the highest offered rate: a median of pairs.

    `rate` offers a multiple of the capacity and returns the rate of copies. The result is NaN if no
    rate beyond the capacity was offered, or only one rate.
    """
    *others, last = sorted(curve, key=lambda row: row.offered_over_capacity)
    if not others or last.offered_over_capacity <= 1.0:
        return float("nan")
    peak = max(others, key=lambda row: row.copies_per_s)
    offered = (peak.offered_over_capacity, last.offered_over_capacity)
    shares = []
    for number in range(pairs):
        # The order changes from pair to pair, so that a drift of the machine's speed affects both
        # rates.
        order = offered if number % 2 == 0 else offered[::-1]
        rates = {times: rate(times) for times in order}
        shares.append(rates[offered[1]] / max(1.0, rates[offered[0]]))
    return statistics.median(shares)


def measure(
    forwarder: Forwarder, fanout: int, offered: Sequence[float], seconds: float, pairs: int
) -> list[OverloadRow]:
    with running(forwarder, fanout) as (site, set_up):
        load.settle(site, fanout)
        capacity_pps = capacity(
            # The search takes samples, as the sweeps do, because sampling takes time of the SFU's
            # processor.
            lambda trial: _offer(forwarder, site, fanout, trial.per_s / fanout, trial.seconds)[0],
            fanout,
        )
        sweeps = [
            [
                undisturbed(
                    partial(
                        _rated,
                        *(site, set_up, (forwarder, fanout, times), capacity_pps * times, seconds),
                    ),
                    seconds,
                )
                for times in sorted(offered)
            ]
            for _ in range(SWEEPS)
        ]
        curve = [
            merged(
                runs,
                medians=("copies_per_s", "loss", "last_copy_p99_us", "offered_pps"),
                sums=("drops", "vanished"),
                maxima=("viewers_spread_pct",),
            )
            for runs in zip(*sweeps, strict=True)
        ]
        curve[-1] = replace(
            curve[-1],
            of_peak=share_of_peak(
                lambda times: (
                    _offer(forwarder, site, fanout, capacity_pps * times, seconds)[0].copies_per_s
                ),
                curve,
                pairs,
            ),
        )
        return curve


def run(
    folder: Path,
    chosen: Sequence[Forwarder],
    *,
    fanouts: Sequence[int] = FANOUTS,
    offered: Sequence[float] = OFFERED,
    seconds: float = STEP_S,
    pairs: int = PAIRS,
) -> Failures:
    return measured(
        folder / "overload.csv",
        OverloadRow,
        list(product(chosen, fanouts)),
        lambda cell: measure(*cell, offered, seconds, pairs),
        cell_s=CELL_S,
        label=label_of,
    )
