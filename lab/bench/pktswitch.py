"""Compares sockets with kernel bypass, and with forwarding in the kernel.

pktswitch (Baltas and Xylomenos, ISCC 2015) is an SFU that its authors built first on sockets and
then on netmap. The paper reports 76 % less processing a packet and 89 % less delay on netmap. Here
our pktswitch and the switch are each measured on UDP sockets and on AF_XDP. Then they are compared
with programs that do the same in the kernel by XDP: pktswitch with the hand-written relay, the
switch with the kernel engine. docs/performance.md says why our differences are not the same as the
paper's.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from lab.bench import load, turns
from lab.bench.cells import Failures, label_of, measured
from lab.bench.forwarders import KERNEL, RELAY, Forwarder, running, there_is
from lab.bench.search import FULL, Effort
from lab.bench.turns import Cell
from lab.process import ChildError
from lab.results.benchmarks import FanoutRow, PktswitchRow
from lab.rows import ROWS, in_kernel

FANOUTS = (1, 8, 64)
BUSY_SHARE = 0.9
"""The rate at which the delay under load is measured, as a share of the lossless rate on
sockets."""
BUSY_S = 2.0


def reduction_pct(before: float, after: float) -> float:
    """Returns by how many percent `after` is less than `before`; NaN if `before` is 0."""
    return 100.0 * (1.0 - after / before) if before else float("nan")


def overhead_ns(row: FanoutRow) -> float:
    """Returns the processor time per copy: the time between copies if a whole processor is used."""
    has_all = row.wait in ("spin", in_kernel.SHARED)
    return 1e9 / row.copies_per_s_lossless if has_all else row.cpu_ns_per_copy


@dataclass(frozen=True, slots=True)
class Step:
    """Compares a forwarder on sockets with its counterpart `beyond`, which uses no sockets."""

    sockets: Forwarder
    beyond: Forwarder

    def __str__(self) -> str:
        return f"{self.sockets} to {self.beyond}"


def steps() -> list[Step]:
    """The comparisons with AF_XDP, then those with XDP, if this machine has what they need."""
    sockets = [
        Forwarder(name, engine, "udp", wait)
        for (name, engine), wait in product(
            (("pktswitch_sockets", ""), ("p4_replication", "native")), ("sleep", "spin")
        )
    ]
    sleeping = [one for one in sockets if one.wait == "sleep"]
    found = [
        *(Step(one, _past_the_kernel(one)) for one in sockets),
        *(Step(*pair) for pair in zip(sleeping, (RELAY, KERNEL), strict=True)),
    ]
    return [step for step in found if there_is(step.beyond.row)]


def _past_the_kernel(sockets: Forwarder) -> Forwarder:
    row = sockets.row.replace("pktswitch_sockets", "pktswitch_bypass")
    return replace(sockets, row=row, port="afxdp")


def _busy_delay_us(forwarder: Forwarder, n: int, rate_pps: float) -> float:
    with running(forwarder, n) as (site, _):
        load.settle(site, n)
        _, samples = load.sampled(site, n, rate_pps, BUSY_S, is_in_kernel=forwarder.is_in_kernel)
    n_copies = sum(sample.copies for sample in samples)
    return sum(sample.sum_ns for sample in samples) / 1e3 / n_copies if n_copies else float("nan")


def _alone(forwarder: Forwarder, n: int, effort: Effort) -> FanoutRow:
    with tempfile.TemporaryDirectory(prefix="reprise-bench-") as folder:
        (row,) = turns.measure(Cell(0, (forwarder,), n, effort), Path(folder), [])
        return row


def measure(step: Step, n: int, effort: Effort) -> PktswitchRow:
    sockets, beyond = step.sockets, step.beyond
    slow, fast = (_alone(one, n, effort) for one in (sockets, beyond))
    if min(slow.copies_per_s_lossless, fast.copies_per_s_lossless) <= 0:
        raise ChildError(f"{step}, {n} copies: no rate is without loss")
    slow_ns, fast_ns = overhead_ns(slow), overhead_ns(fast)
    busy_pps = BUSY_SHARE * slow.copies_per_s_lossless / n
    slow_busy_us, fast_busy_us = (_busy_delay_us(one, n, busy_pps) for one in (sockets, beyond))
    return PktswitchRow(
        row=beyond.row if beyond.is_in_kernel else sockets.row,
        engine=beyond.engine,
        wait=beyond.wait,
        fanout=n,
        overhead_sockets_ns=slow_ns,
        overhead_bypass_ns=fast_ns,
        overhead_reduction_pct=reduction_pct(slow_ns, fast_ns),
        delay_sockets_us=slow.last_copy_p50_us,
        delay_bypass_us=fast.last_copy_p50_us,
        delay_reduction_pct=reduction_pct(slow.last_copy_p50_us, fast.last_copy_p50_us),
        busy_rate_pps=busy_pps,
        busy_delay_sockets_us=slow_busy_us,
        busy_delay_bypass_us=fast_busy_us,
        busy_delay_reduction_pct=reduction_pct(slow_busy_us, fast_busy_us),
        lossless_sockets_copies_per_s=slow.copies_per_s_lossless,
        lossless_bypass_copies_per_s=fast.copies_per_s_lossless,
    )


def cell_s(effort: Effort) -> float:
    """About how long a comparison takes at one fan-out."""
    return 2 * (turns.planned_s(effort) + BUSY_S + 2.0)


def run(
    folder: Path,
    chosen: Sequence[Step],
    fanouts: Sequence[int] = FANOUTS,
    effort: Effort = FULL,
) -> Failures:
    failures = measured(
        folder / "pktswitch.csv",
        PktswitchRow,
        list(product(chosen, fanouts)),
        lambda cell: [measure(*cell, effort)],
        cell_s=cell_s(effort),
        label=label_of,
    )
    return [*failures, *filter(None, [ROWS[RELAY.row].lacks()])]
