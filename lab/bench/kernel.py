"""Forwarding in the kernel: the kernel engine beside the relay in XDP by hand, and beside AF_XDP.

They take turns (`lab.bench.turns`). The kernel makes the copies on the sender's processor, which so
has two things to do; AF_XDP has a processor to itself. All are counted at one sink, XDP's. Then, in
shorter trials, at the other one, behind a packet that the kernel makes of each copy: what a host's
stack would have to do in any case, and no SFU. Last the processor time of each: without a
packet, and with the thesis' fastest stream to all its viewers; there a thread of the kernel's own
forwards, whose time is known.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from lab.bench import load, turns
from lab.bench.experiment import Failures, csv_text, each
from lab.bench.fanout import (
    FRAME_LEN_BYTES,
    LATENCY_RATE_PPS,
    SETTLE_RATE_PPS,
    SETTLE_S,
    Probe,
    median_rows,
)
from lab.bench.forwarders import Forwarder, running, there_is
from lab.bench.load import TCX_SINK, XDP_SINK
from lab.bench.matrix import COMPARED_FANOUT, CURVE_PART, POINT_PART, probes_csv
from lab.bench.results import FanoutRow, ProcessorRow
from lab.bench.search import FULL, QUICK, TRIAL_S, Effort
from lab.bench.turns import Set
from lab.files import write_whole
from lab.process import ChildError
from lab.rows import ROWS, in_kernel

FILE = "kernel.csv"
ROUNDS_FILE, PROCESSOR_FILE = "kernel-rounds.csv", "kernel-processor.csv"
FANOUTS = (1, 8, 16, 64)
SETS = 3
VIEWERS = 11
"""The thesis' most."""
IDLE_S, BUSY_S = 2.0, 3.0
PROCESSOR_CELL_S = IDLE_S + BUSY_S + 2.0
KERNEL = Forwarder("p4_replication", "kernel", in_kernel.PORT, in_kernel.SHARED)
RELAY = Forwarder("xdp_relay", "", in_kernel.PORT, in_kernel.SHARED)
NATIVE = Forwarder("p4_replication", "native", "afxdp", "spin")
SLEEPING = Forwarder("p4_replication", "native", "afxdp", "sleep")


@dataclass(frozen=True, slots=True)
class Cell:
    """One set of turns at a fan-out; without one, the processor time."""

    forwarders: tuple[Forwarder, ...]
    fanout: int
    round: int = 0
    sink: str = XDP_SINK
    effort: Effort = FULL

    @property
    def planned_s(self) -> float:
        """The approximate duration."""
        one_s = turns.planned_s(self.effort) if self.fanout else PROCESSOR_CELL_S
        return one_s * len(self.forwarders)

    def __str__(self) -> str:
        names = " beside ".join(str(forwarder) for forwarder in self.forwarders)
        what = f"{self.fanout} copies, sink {self.sink}" if self.fanout else "processor time"
        return f"{names}, {what}"


def forwarders() -> list[Forwarder]:
    """What is set beside each other."""
    return [one for one in (KERNEL, RELAY, NATIVE) if there_is(one.row)]


def timed() -> list[Forwarder]:
    """Whose processor time is measured."""
    threads = (replace(one, wait=in_kernel.THREAD) for one in (KERNEL, RELAY))
    return [one for one in (*threads, SLEEPING, NATIVE) if there_is(one.row)]


def cells(
    fanouts: Sequence[int] = (),
    rounds: int = 0,
    trial_s: float = TRIAL_S,
    *,
    is_quick: bool = False,
) -> list[Cell]:
    """The sets of every fan-out at one sink and the other, then the processor time of each."""
    beside = tuple(forwarders())
    chosen = fanouts or (FANOUTS[-1:] if is_quick else FANOUTS)
    sets = rounds or (1 if is_quick else SETS)
    todo = [
        Cell(beside, n, number, sink, QUICK if is_quick else _effort(n, sink, trial_s))
        for number in range(sets)
        for sink in (XDP_SINK, TCX_SINK)
        for n in chosen
    ]
    return [*todo, *(Cell((one,), 0) for one in timed())]


def _effort(fanout: int, sink: str, trial_s: float) -> Effort:
    """Whole trials where the promises are, shorter ones of the other points and the other sink."""
    if sink == TCX_SINK:
        return Effort(trial_s / CURVE_PART)
    return Effort(trial_s if fanout == COMPARED_FANOUT else trial_s / POINT_PART)


def run(folder: Path, todo: Sequence[Cell]) -> Failures:
    """Measures every cell; a cell that fails is returned and left out."""
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    rows: list[FanoutRow] = []
    times: list[ProcessorRow] = []
    probes: list[Probe] = []
    failures: Failures = [why for why in (ROWS[RELAY.row].lacks(),) if why]
    for cell in each(todo, todo[0].planned_s if todo else 0.0, failures):
        of = Set(cell.fanout, cell.round, cell.sink, cell.effort)
        kept = turns.kept_in(raw, of)
        try:
            if cell.fanout:
                rows += turns.measure(cell.forwarders, of, kept)
            else:
                times += [processor_time(forwarder) for forwarder in cell.forwarders]
        except ChildError as error:
            failures.append(f"{cell}: {error}")
        probes += [probe for one in cell.forwarders for probe in kept(one).probes]
        write_whole(raw / "kernel-probes.csv", probes_csv(probes))
        write_whole(folder / ROUNDS_FILE, csv_text(FanoutRow, rows))
        write_whole(folder / PROCESSOR_FILE, csv_text(ProcessorRow, times))
    write_whole(folder / FILE, csv_text(FanoutRow, median_rows(rows)))
    return failures


def processor_time(
    forwarder: Forwarder, *, idle_s: float = IDLE_S, busy_s: float = BUSY_S
) -> ProcessorRow:
    """Of one forwarder, idle and with the thesis' fastest stream."""
    with running(forwarder, VIEWERS) as (site, set_up):
        load.offer(site, VIEWERS, SETTLE_RATE_PPS, SETTLE_S, frame_len_bytes=FRAME_LEN_BYTES)
        before_s, began_s = set_up.cpu_s(), time.monotonic()
        time.sleep(idle_s)
        idle = (set_up.cpu_s() - before_s) / (time.monotonic() - began_s)
        before_s = set_up.cpu_s()
        offered = load.offer(
            site,
            VIEWERS,
            LATENCY_RATE_PPS,
            busy_s,
            frame_len_bytes=FRAME_LEN_BYTES,
            is_in_kernel=forwarder.is_in_kernel,
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
