"""Priorities: of two streams under overload the urgent one must lose nothing.

One packet in ten is audio, with viewers of its own. With `sfu_priority.p4` the switch forwards
audio before all other packets, so that under overload only the others are lost.
"""

from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from itertools import product
from pathlib import Path

from lab.bench import load
from lab.bench.cells import Failures, label_of, measured
from lab.bench.forwarders import PRIORITY, Forwarder, running
from lab.bench.load import SETTLE_RATE_PPS, SETTLE_S
from lab.bench.noise import undisturbed
from lab.bench.overload import CAPACITY_S, capacity, counted_drops, look, vanished
from lab.results.benchmarks import PriorityRow
from lab.results.statistics import merged
from lab.rows import in_kernel

AUDIO_EVERY = 10
OFFERED = {8: (1.0, 1.2), 64: (1.0, 1.5, 2.5)}
"""The offered rates as multiples of the capacity, by fan-out. At each of them the switch still has
time to look at every packet that arrives while it sends (docs/switch.md)."""
STEP_S = 0.5
SWEEPS = 3
"""How often the rates are offered, each time as multiples of a capacity that was measured just
before. The largest loss is the result."""
CELL_S = SWEEPS * (CAPACITY_S + 2.0)


def forwarders() -> list[Forwarder]:
    """Returns forwarders of the switch alone, because its peers have no priorities."""
    return [
        Forwarder(PRIORITY, engine, port, "spin")
        for engine, port in (
            ("interpreter", "afpacket"),
            ("native", "afpacket"),
            ("native", "afxdp"),
        )
    ] + [Forwarder(PRIORITY, "kernel", in_kernel.PORT, in_kernel.THREAD)]


def measure(forwarder: Forwarder, fanout: int, sweeps: int) -> list[PriorityRow]:
    with running(forwarder, fanout) as (site, set_up):

        def offer(rate_pps: float, for_s: float) -> load.Run:
            return load.offer(
                site,
                fanout,
                rate_pps,
                for_s,
                audio_every=AUDIO_EVERY,
                is_in_kernel=forwarder.is_in_kernel,
            )

        def step(capacity_pps: float, times: float) -> PriorityRow:
            before = look(site, set_up, is_in_kernel=forwarder.is_in_kernel)
            run = offer(capacity_pps * times, STEP_S)
            after = look(site, set_up, is_in_kernel=forwarder.is_in_kernel)
            return PriorityRow(
                **asdict(forwarder),
                fanout=fanout,
                offered_over_capacity=times,
                copies_per_s=run.copies_per_s,
                audio_sent=run.audio_sent,
                audio_loss=run.audio_loss,
                video_sent=run.sent,
                video_loss=run.loss,
                drops=counted_drops(before, after),
                vanished=vanished(run, before, after),
            )

        def sweep() -> list[PriorityRow]:
            capacity_pps = capacity(
                lambda trial: offer(trial.per_s / fanout, trial.seconds), fanout
            )
            return [
                undisturbed(partial(step, capacity_pps, times), STEP_S)
                for times in OFFERED.get(fanout, (1.0, 1.2))
            ]

        offer(SETTLE_RATE_PPS, SETTLE_S)
        return [
            merged(
                runs,
                medians=("copies_per_s",),
                sums=("audio_sent", "video_sent", "drops", "vanished"),
                maxima=("audio_loss", "video_loss"),
            )
            for runs in zip(*(sweep() for _ in range(sweeps)), strict=True)
        ]


def run(
    folder: Path, chosen: Sequence[Forwarder], fanouts: Sequence[int], *, sweeps: int = SWEEPS
) -> Failures:
    return measured(
        folder / "priority.csv",
        PriorityRow,
        list(product(chosen, fanouts)),
        lambda cell: measure(*cell, sweeps),
        cell_s=CELL_S,
        label=label_of,
    )
