"""Forwarding in the kernel.

Compares the kernel engine with a hand-written relay in XDP and with the native engine on AF_XDP.

The forwarders take turns (`lab.bench.turns`). The kernel engine and the relay make the copies on
the processor of the load (the process that sends the packets); an AF_XDP forwarder has a processor
to itself. First an XDP program counts the copies of each forwarder (the XDP sink). Then, in shorter
trials, a tcx program counts the copies (the tcx sink). For the tcx sink the kernel makes a packet
(an skb) of each copy, which is work of a receiving host's stack, not of an SFU. Last, the processor
time of each forwarder is measured, first while the forwarder is idle, then while it forwards the
fastest stream of the thesis (docs/lab.md names it) to the thesis' largest number of viewers. In
this last measurement the kernel forwards in a kernel thread of its own, because the kernel accounts
processor time by thread.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lab.bench import load, turns
from lab.bench.cells import RAW, Failures, measured, measured_sets
from lab.bench.fanout import LATENCY_RATE_PPS
from lab.bench.forwarders import KERNEL, NATIVE, RELAY, Forwarder, running, there_is
from lab.bench.load import TCX_SINK, XDP_SINK
from lab.bench.matrix import COMPARED_FANOUT, CURVE_PART, POINT_PART
from lab.bench.search import QUICK, TRIAL_S, Effort
from lab.bench.turns import Cell
from lab.results.benchmarks import FanoutRow, ProcessorRow
from lab.rows import ROWS, in_kernel

FANOUTS = (1, 8, 16, 64)
SETS = 3
VIEWERS = 11
"""The largest number of viewers that the thesis has at its fastest stream."""
IDLE_S, BUSY_S = 2.0, 3.0
SLEEPING = replace(NATIVE, wait="sleep")


@dataclass(frozen=True, slots=True)
class Timed:
    """A forwarder whose processor time is measured."""

    forwarder: Forwarder
    planned_s = IDLE_S + BUSY_S + 2.0

    def __str__(self) -> str:
        return f"{self.forwarder}, processor time"


def timed() -> list[Timed]:
    threads = (replace(one, wait=in_kernel.THREAD) for one in (KERNEL, RELAY))
    return [Timed(one) for one in (*threads, SLEEPING, NATIVE) if there_is(one.row)]


def cells(
    rounds: int = 0,
    trial_s: float = TRIAL_S,
    *,
    fanouts: Sequence[int] = (),
    is_quick: bool = False,
) -> list[Cell | Timed]:
    """Lists the sets of trials for each fan-out and sink, then a `Timed` for each forwarder."""
    beside = tuple(one for one in (KERNEL, RELAY, NATIVE) if there_is(one.row))
    chosen = fanouts or (FANOUTS[-1:] if is_quick else FANOUTS)
    sets = rounds or (1 if is_quick else SETS)
    todo = [
        Cell(number, beside, n, QUICK if is_quick else _effort(n, sink, trial_s), sink)
        for number in range(sets)
        for sink in (XDP_SINK, TCX_SINK)
        for n in chosen
    ]
    return [*todo, *timed()]


def _effort(fanout: int, sink: str, trial_s: float) -> Effort:
    """Says how long the trials are.

    They have their full length at the compared fan-out, are shorter at other fan-outs, and shortest
    at the tcx sink.
    """
    if sink == TCX_SINK:
        return Effort(trial_s / CURVE_PART)
    return Effort(trial_s if fanout == COMPARED_FANOUT else trial_s / POINT_PART)


def run(folder: Path, todo: Sequence[Cell | Timed]) -> Failures:
    """Measures every cell. A cell that fails is left out, and its failure is returned."""
    failures = measured_sets(
        (folder, "kernel"),
        FanoutRow,
        [cell for cell in todo if isinstance(cell, Cell)],
        lambda cell, probes: turns.measure(cell, folder / RAW, probes),
        lacking=[ROWS[RELAY.row].lacks()],
    )
    return failures + measured(
        folder / "kernel-processor.csv",
        ProcessorRow,
        [cell for cell in todo if isinstance(cell, Timed)],
        lambda cell: [processor_time(cell.forwarder)],
        cell_s=Timed.planned_s,
    )


def processor_time(forwarder: Forwarder) -> ProcessorRow:
    """Measures the processor time of one forwarder, idle and with the thesis' fastest stream."""
    with running(forwarder, VIEWERS) as (site, set_up):
        load.settle(site, VIEWERS)
        before_s, began_s = set_up.cpu_s(), time.monotonic()
        time.sleep(IDLE_S)
        idle = (set_up.cpu_s() - before_s) / (time.monotonic() - began_s)
        before_s = set_up.cpu_s()
        offered = load.offer(
            site, VIEWERS, LATENCY_RATE_PPS, BUSY_S, is_in_kernel=forwarder.is_in_kernel
        )
        used_s = set_up.cpu_s() - before_s
    return ProcessorRow(
        **asdict(forwarder),
        viewers=VIEWERS,
        packets_per_s=offered.sent / offered.seconds,
        loss=offered.loss,
        idle_cpu_pct=100.0 * idle,
        cpu_ns_per_copy=used_s * 1e9 / max(1, offered.copies),
    )
