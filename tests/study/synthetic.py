"""Makes runs that were never measured. Its callers choose the delays."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lab.experiment import Cell, Experiment, Part, Place, parse
from lab.meter import EmptyLoop, Sample, Seen, Slot, Totals
from lab.offered import copies_due
from lab.results.folder import Facts, Run
from lab.results.runs import measured
from lab.results.series import Results
from lab.rows.row import Variant

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
N_PACKETS = 12
FRAME_BYTES = 1400
INTERVAL_NS = 10_000_000
US = 1_000


def text_of(*parts: str, name: str = "own", more: str = "") -> str:
    """Returns the text of an experiment's file.

    `parts` have the fields of each part, `more` has further lines.
    """
    head = f"experiment: {name}\nabout: a\nsource: s\n{more}parts:\n"
    return head + "".join(f"  - {{{fields}}}\n" for fields in parts)


SMALL = text_of(
    "part: a, rows: [userspace], viewers: [1, 3], runs: 2, streams: [{packets_per_s: 100}], "
    "quick: {viewers: 1, runs: 1}",
    name="small",
)

Delay = Callable[[Cell, int, int], int]
"""Computes the delay in ns of a copy from a cell, the packet's number and the viewer's number.

A cell says which run it is, and of which row (SFU), with how many viewers. Both numbers count from
0.
"""


def usual(cell: Cell, packet: int, viewer: int) -> int:
    """Returns the usual delay of a copy.

    The delay is 100 us for each viewer up to and including this viewer, increased by as many
    percent as the run's number says, plus 1 us for each earlier packet.
    """
    return (viewer + 1) * 100 * US * (100 + cell.run) // 100 + packet * US


def run_of(part: Part, cell: Cell, delay: Delay = usual, n_packets: int = N_PACKETS) -> Run:
    """Makes a run in which all packets are samples and all copies came."""
    n_streams = cell.senders * len(part.streams)
    sent = (n_packets,) * n_streams
    samples, slots = [], []
    for stream in range(n_streams):
        viewers = [
            viewer for one, viewer in copies_due(part, cell.participants, sent) if one == stream
        ]
        for packet in range(n_packets):
            delays = [delay(cell, packet, idx) for idx in range(len(viewers))]
            samples.append(sample(stream, packet, delays))
        for idx, viewer in enumerate(viewers):
            delays = [delay(cell, packet, idx) for packet in range(n_packets)]
            slots.append(slot(stream, viewer, delays))
    totals = Totals(
        sent=sum(sent),
        bytes_sent=sum(sent) * FRAME_BYTES,
        sending_s=(n_packets - 1) * INTERVAL_NS / 1e9,
        copies_due=sum(one.copies for one in slots),
        copies=sum(one.copies for one in slots),
        copies_while_sending=0,
        others=0,
        refusals=0,
        samples_lost=0,
        late_max_ns=5 * US,
        stopped=False,
        sent_of_streams=sent,
    )
    return Run(cell, FACTS, EMPTY_LOOP, Seen(totals, tuple(samples), tuple(slots)))


FACTS = Facts(
    started="2026-01-02T03:04:05+00:00",
    session=0,
    repeated_because=("sending took 1 s, planned were 2 s",),
    sfu_cpu_s=0.5,
    sfu_kernel_cpu_s=0.2,
    interrupts_s=0.04,
    sample_every=1,
    planned_s=0.11,
    is_broken=False,
)
EMPTY_LOOP = EmptyLoop(loops=1000, seconds=0.05, p50_ns=40, p999_ns=2_500, max_ns=31_000)


def sample(stream: int, sequence: int, delays_ns: Sequence[int]) -> Sample:
    ordered = sorted(delays_ns)
    return Sample(
        stream=stream,
        sequence=sequence,
        frame_bytes=FRAME_BYTES,
        sent_ns=sequence * INTERVAL_NS,
        copies=len(ordered),
        first_copy_ns=ordered[0] if ordered else 0,
        last_copy_ns=ordered[-1] if ordered else 0,
        sum_ns=sum(ordered),
    )


def slot(stream: int, participant: int, delays_ns: Sequence[int]) -> Slot:
    return Slot(
        stream=stream,
        participant=participant,
        copies=len(delays_ns),
        duplicates=0,
        misordered=0,
        timed=len(delays_ns),
        sum_ns=sum(delays_ns),
        min_ns=min(delays_ns),
        max_ns=max(delays_ns),
        jitter_ns=20 * US,
    )


def runs_of(experiment: Experiment, delay: Delay = usual) -> Iterator[Run]:
    for part in experiment.loads:
        for place in part.places():
            for cell in part.cells(place, {}):
                yield run_of(part, cell, delay)


def results_from(experiment: Experiment, runs: Iterable[Run] | None = None) -> Results:
    """Returns the results of these runs, or of runs with the usual delays if `runs` is `None`."""
    done = runs_of(experiment) if runs is None else runs
    return Results(experiment, measured(experiment, done), ())


def part_of(text: str) -> Part:
    head = "experiment: x\nabout: a\nsource: s\nparts:\n  - part: a\n    rows: [userspace]\n"
    (part,) = parse(f"{head}    {text}\n", "f.yaml").loads
    return part


def cell_of(participants: int, senders: int = 1, run: int = 1) -> Cell:
    return Cell(Place("a", "one_port", "userspace", Variant()), participants, senders, run)


def changed(run: Run, **fields: object) -> Run:
    return replace(run, seen=replace(run.seen, **fields))  # type: ignore[arg-type]
