"""The row types of the benchmarks' files, which benchmarks write and the report reads. No I/O.

The column `row` has the name of the forwarder that was measured.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_args

from lab.csvs import rows_of

ALONE, BY_PLACE = -1, -2
"""Special values of a row's `set`. Otherwise `set` is the number of a set of trials: within a set,
the forwarders that are compared run trials in turns (`lab.bench.turns`).
ALONE: the row was not compared with others. BY_PLACE: the file was written before it had these
numbers, but its rows are in the order of their sets."""


class BenchmarkRow:
    __slots__ = ()
    names: ClassVar[tuple[str, ...]] = ()
    """The columns that identify a measurement.

    Rows with equal values in these columns are from different sets of trials of the same
    measurement.
    """
    measured: ClassVar[tuple[str, ...]] = ()
    """The columns in which two studies are compared."""


@dataclass(frozen=True, slots=True)
class FanoutRow(BenchmarkRow):
    """A row of fanout.csv or fanout-rounds.csv: one forwarder at one fan-out.

    In fanout-rounds.csv, each row is one set of trials.
    """

    names = ("row", "engine", "port", "wait", "fanout", "sink")
    measured = ("copies_per_s_lossless", "copies_per_s_peak", "last_copy_p50_us")
    row: str
    engine: str
    port: str
    wait: str
    fanout: int
    copies_per_s_lossless: float
    copies_per_s_peak: float
    first_copy_p50_us: float
    first_copy_p99_us: float
    last_copy_p50_us: float
    last_copy_p99_us: float
    cpu_ns_per_copy: float
    sink: str = ""
    """Where copies are counted (`lab.bench.load`); empty in files from before this column."""
    set: int = BY_PLACE
    """The number of the set of alternating trials (`lab.bench.turns`), `ALONE`, or `BY_PLACE`."""
    sets: int = 1
    """The number of sets of which the row is the median."""
    trial_s: float = math.nan
    """The duration of the deciding trial, which is the trial that decided the lossless rate."""
    bound_by: str = ""
    """Why the next higher rate failed.

    `loss`, `lateness`, or `load` if the load generator could not send more.
    """
    is_peak_least: int = 0
    """1 if everything arrived that the load generator could send: the true peak may be higher."""
    late_share: float = math.nan
    """The share of the deciding trial's copies that came after the last packet was sent."""
    kernel_share: float = math.nan
    """The kernel's share of processor time in the deciding trial, by the kernel's timer tick."""
    is_disturbed: int = 0
    """1 if other processes used the processors too much in the deciding trial.

    A disturbed trial is repeated while there is time. So this is 1 if the last repetition was
    disturbed, or if there was no time for one.
    """


@dataclass(frozen=True, slots=True)
class OverloadRow(BenchmarkRow):
    """A row of overload.csv: one forwarder at one multiple of its capacity."""

    names = ("row", "engine", "port", "wait", "fanout", "offered_over_capacity")
    measured = ("copies_per_s", "loss")
    row: str
    engine: str
    fanout: int
    offered_over_capacity: float
    copies_per_s: float
    loss: float
    last_copy_p99_us: float
    port: str
    wait: str
    offered_pps: float
    """The rate that the load generator really sent.

    On one processor, the load generator cannot reach every multiple of the capacity.
    """
    viewers_spread_pct: float
    """The difference between the viewers with the most and the fewest copies, in percent."""
    drops: float
    """Packets and copies that the switch counted as dropped, for any reason."""
    vanished: float
    """Packets and copies that neither left the switch nor were counted as dropped; should be 0."""
    of_peak: float
    """The rate at the highest multiple divided by the peak rate, as a median over pairs of
    measurements. Only the row of the highest multiple has this value."""


@dataclass(frozen=True, slots=True)
class PriorityRow(BenchmarkRow):
    """A row of priority.csv: two streams that are offered at once."""

    names = ("row", "engine", "port", "wait", "fanout", "offered_over_capacity")
    measured = ("audio_loss", "video_loss")
    row: str
    engine: str
    port: str
    wait: str
    fanout: int
    offered_over_capacity: float
    copies_per_s: float
    audio_sent: int
    audio_loss: float
    video_sent: int
    video_loss: float
    drops: float
    vanished: float


@dataclass(frozen=True, slots=True)
class PipelineRow(BenchmarkRow):
    """A row of pipeline.csv: a part of a pipeline, with the optimisations that `variant` names."""

    names = ("program", "flows", "variant", "part")
    measured = ("ns_per_packet",)
    program: str
    engine: str
    optimisations: str
    packet_size_bytes: int
    flows: int
    ns_per_packet: float
    tsc_ticks_per_packet: float
    part: str
    variant: str
    copies_per_packet: float
    ns_per_copy: float

    @property
    def roles(self) -> list[str]:
        """The names of the row's variant, which `variant` lists, separated by semicolons.

        A variant is an engine with a choice of optimisations. It has several names if they mean
        the same choice: `reference` (the interpreter), or for the native engine `naive` (none),
        `all`, `pisces`, `alone NAME` (only this one), `without NAME` (all others) or `step N NAME`
        (this one and those before it).
        """
        return self.variant.split("; ")


@dataclass(frozen=True, slots=True)
class GrowthRow(BenchmarkRow):
    """A row of growth.csv: what a pipeline costs when one of its sizes has a given value.

    `grows` names the size, and `value` is the value.
    """

    names = ("program", "engine", "optimisations", "grows", "value")
    measured = ("ns_per_packet",)
    program: str
    engine: str
    optimisations: str
    grows: str
    value: float
    ns_per_packet: float
    copies_per_packet: float
    ns_per_copy: float


@dataclass(frozen=True, slots=True)
class PktswitchRow(BenchmarkRow):
    """A row of pktswitch.csv: a forwarder on UDP sockets, compared with its counterpart.

    The counterpart, `bypass` in the columns, uses AF_XDP, or is an XDP program in the kernel.
    """

    names = ("row", "engine", "wait", "fanout")
    measured = ("overhead_bypass_ns", "delay_bypass_us", "busy_delay_bypass_us")
    row: str
    engine: str
    wait: str
    fanout: int
    overhead_sockets_ns: float
    """The processor time per copy at the highest lossless rate; see `pktswitch.overhead_ns`."""
    overhead_bypass_ns: float
    overhead_reduction_pct: float
    delay_sockets_us: float
    """The median delay of packets' last copies, at 360 packets a second."""
    delay_bypass_us: float
    delay_reduction_pct: float
    busy_rate_pps: float
    busy_delay_sockets_us: float
    """The mean delay of all copies, at a rate near the highest that the sockets carry."""
    busy_delay_bypass_us: float
    busy_delay_reduction_pct: float
    lossless_sockets_copies_per_s: float
    lossless_bypass_copies_per_s: float


@dataclass(frozen=True, slots=True)
class ProcessorRow(BenchmarkRow):
    """A row of kernel-processor.csv: how much processor time a forwarder takes."""

    names = ("row", "engine", "port", "wait", "viewers")
    measured = ("idle_cpu_pct", "cpu_ns_per_copy")
    row: str
    engine: str
    port: str
    wait: str
    viewers: int
    packets_per_s: float
    loss: float
    idle_cpu_pct: float
    """The share of one processor that the forwarder takes while no packets come."""
    cpu_ns_per_copy: float
    """The processor time per copy.

    A forwarder that waits by spinning uses its whole processor, however many packets come.
    """


@dataclass(frozen=True, slots=True)
class SwitchingRow(BenchmarkRow):
    """A row of switching.csv or switching-rounds.csv: a switch forwards small frames between ports.

    In switching-rounds.csv, each row is one set of trials.
    """

    names = ("program", "switch", "frame_bytes")
    measured = ("packets_per_s_lossless", "packets_per_s_peak")
    program: str
    switch: str
    """The switch's name in `lab.pisces.switches`."""
    frame_bytes: int
    flows: int
    packets_per_s_lossless: float
    packets_per_s_peak: float
    set: int = BY_PLACE
    sets: int = 1
    trial_s: float = math.nan
    bound_by: str = ""
    is_peak_least: int = 0
    late_share: float = math.nan
    kernel_share: float = math.nan
    is_disturbed: int = 0


@dataclass(frozen=True, slots=True)
class ScalingRow(BenchmarkRow):
    """A row of scaling.csv or scaling-rounds.csv: a forwarder on a number of processors.

    In scaling-rounds.csv, each row is one set of trials.
    """

    names = ("row", "engine", "port", "wait", "processors", "fanout")
    measured = ("copies_per_s_lossless",)
    row: str
    engine: str
    port: str
    wait: str
    processors: int
    fanout: int
    copies_per_s_lossless: float
    """The rate of all streams together."""
    copies_per_s_peak: float
    set: int = BY_PLACE
    sets: int = 1
    trial_s: float = math.nan
    bound_by: str = ""
    is_peak_least: int = 0
    late_share: float = math.nan
    is_disturbed: int = 0


@dataclass(frozen=True, slots=True)
class PiscesRow(BenchmarkRow):
    """A row of pisces.csv or pisces-sets.csv: a switch runs a program, with frames of one size.

    In pisces-sets.csv, each row is one set of trials.
    """

    names = ("program", "switch", "variant", "flow_caches", "port", "frame_bytes")
    measured = ("packets_per_s_lossless", "packets_per_s_peak")
    program: str
    switch: str
    variant: str
    """`naive` or `optimised`; empty for Open vSwitch."""
    optimisations: str
    """The value of `--optimise`, with spaces instead of commas."""
    port: str
    wait: str
    flow_caches: str
    """`off` or `on`; the megaflow classifier of Open vSwitch cannot be turned off."""
    flows: int
    frame_bytes: int
    sets: int
    packets_per_s_lossless: float
    packets_per_s_peak: float
    mbit_per_s_lossless: float
    """The rate of the frames' bits, without preamble, check sequence and gap: a veth has none."""
    mbit_per_s_peak: float
    lossless_of_ovs: float
    """The lossless rate divided by Open vSwitch's in the same set, with the same `flow_caches`."""
    peak_of_ovs: float
    trial_s: float = math.nan
    """The duration of the deciding trial, which is the trial that decided the lossless rate."""
    late_share: float = math.nan
    """The share of the deciding trial's frames that arrived after the last frame was sent."""
    kernel_share: float = math.nan
    """The kernel's share of processor time in the deciding trial, by the kernel's timer tick."""
    disturbed: float = math.nan
    """The share of sets in which other processes disturbed the last repetition of the deciding
    trial."""


def mbit_per_s(packets_per_s: float, frame_bytes: int) -> float:
    """Converts a rate of frames of one size to the rate of their bits, in Mbit/s."""
    return packets_per_s * frame_bytes * 8 / 1e6


@dataclass(frozen=True, slots=True)
class Counted(BenchmarkRow):
    """A row of pisces-complexity.csv: the size of a program and of our files that it includes."""

    name: str
    files: int
    lines: int
    functions: int
    """C functions; in P4, actions and functions."""
    tables: int
    states: int
    blocks: int
    """P4's parsers and controls."""


@dataclass(frozen=True, slots=True)
class Change(BenchmarkRow):
    """A row of pisces-headers.csv: the lines to change for a new header."""

    name: str
    files: int
    lines: int


@dataclass(frozen=True, slots=True)
class NeobftRow(BenchmarkRow):
    """A row of neobft.csv: the capacity of one kind of multicast, for one number of receivers."""

    names = ("kind", "receivers")
    measured = ("requests_per_s_peak", "requests_per_s_lossless")
    kind: str
    """`tagged` (AOM-HM), `signed` (AOM-PK), or `plain`: multicast of as many copies as `tagged`."""
    receivers: int
    packets_per_request: int
    """The packets that leave the switch for a request.

    `signed`: one to each receiver. `tagged` and `plain`: to each receiver as many as there are
    shards; a shard is a group of at most four receivers whose tags are in one packet.
    """
    turns: int
    frame_bytes: int
    requests_per_s_peak: float
    copies_per_s_peak: float
    requests_per_s_lossless: float
    of_plain: float
    """The peak divided by the peak of plain multicast: the median over the measurements."""
    signed_share: float
    """The share of copies with a signature, at the peak; 0 for variants without signatures."""


@dataclass(frozen=True, slots=True)
class DelayRow(BenchmarkRow):
    """A row of neobft-delays.csv: a quantile of one variant's delay under one load."""

    kind: str
    load_pct: int
    """The load as a percentage of the highest rate without loss."""
    requests_per_s: float
    samples: int
    quantile_pct: float
    delay_us: float


@dataclass(frozen=True, slots=True)
class DistributionRow(BenchmarkRow):
    """A row of neobft-distributions.csv, for the CDFs: how many samples had this delay."""

    kind: str
    load_pct: int
    delay_us: float
    count: int


@dataclass(frozen=True, slots=True)
class PassRow(BenchmarkRow):
    """A row of neobft-passes.csv: the cost of a request inside the switch, without ports."""

    engine: str
    what: str
    """What is measured.

    `tags`: the tags that authenticate a request, but no copies. `whole`: tags and copies. `plain`:
    multicast of as many copies as `whole`, without tags.
    """
    receivers: int
    copies: int
    ns_per_request: float


@dataclass(frozen=True, slots=True)
class SignatureRow(BenchmarkRow):
    """A row of neobft-signatures.csv: one measurement of the signer, in memory."""

    turn: int
    pooled_per_s: float
    fresh_per_s: float


@dataclass(frozen=True, slots=True)
class MixersRow(BenchmarkRow):
    """A row of mixers.csv: mouth-to-ear delays of musicians' programs, connected by `between`."""

    names = ("between", "program", "clients")
    measured = ("p50_ms", "p99_ms")
    between: str
    """`nothing`, `p4_conference`, `hub` or `server`."""
    program: str
    """The clients' program: `jacktrip` or `jamulus`."""
    clients: int
    clicks: int
    due: int
    """How many clicks listeners should hear in all: `clicks` times the number of listeners."""
    lost: int
    p50_ms: float
    p99_ms: float
    max_ms: float
    cpu_pct: float
    """The processor time of what is between the clients, in percent of one processor."""


@dataclass(frozen=True, slots=True)
class JoinsRow(BenchmarkRow):
    """A row of joins.csv: a load of participants who join a conference service, and leave."""

    names = ("participants", "joins_per_s", "round")
    measured = ("p50_ms", "p99_ms")
    participants: int
    """How many participants there are."""
    joins_per_s: int
    """How many of them leave and join again each second."""
    round: int
    joins: int
    failed: int
    p50_ms: float
    """The time from when a join was due until its first packet of media."""
    p99_ms: float
    max_ms: float
    packets: int
    """The packets that all participants received."""
    lost: int
    """The lost packets, except those that the load generator's machine did not read in time."""
    foreign: int
    """The received packets of tracks to which the receiver has not subscribed."""
    delay_p50_ms: float
    """The delay of packets from the sender to the receiver's kernel."""
    delay_p99_ms: float


@dataclass(frozen=True, slots=True)
class Results:
    """The rows of all benchmarks, in one field for each file, and facts about the session."""

    session: Mapping[str, str]
    fanout: tuple[FanoutRow, ...] = ()
    fanout_rounds: tuple[FanoutRow, ...] = ()
    kernel: tuple[FanoutRow, ...] = ()
    kernel_rounds: tuple[FanoutRow, ...] = ()
    kernel_processor: tuple[ProcessorRow, ...] = ()
    switching: tuple[SwitchingRow, ...] = ()
    switching_rounds: tuple[SwitchingRow, ...] = ()
    scaling: tuple[ScalingRow, ...] = ()
    scaling_rounds: tuple[ScalingRow, ...] = ()
    overload: tuple[OverloadRow, ...] = ()
    priority: tuple[PriorityRow, ...] = ()
    pipeline: tuple[PipelineRow, ...] = ()
    growth: tuple[GrowthRow, ...] = ()
    pktswitch: tuple[PktswitchRow, ...] = ()
    pisces: tuple[PiscesRow, ...] = ()
    pisces_complexity: tuple[Counted, ...] = ()
    pisces_headers: tuple[Change, ...] = ()
    neobft: tuple[NeobftRow, ...] = ()
    neobft_delays: tuple[DelayRow, ...] = ()
    neobft_distributions: tuple[DistributionRow, ...] = ()
    neobft_passes: tuple[PassRow, ...] = ()
    neobft_signatures: tuple[SignatureRow, ...] = ()
    mixers: tuple[MixersRow, ...] = ()
    joins: tuple[JoinsRow, ...] = ()


FILES: dict[str, tuple[str, type[BenchmarkRow]]] = {
    f"{one.name.replace('_', '-')}.csv": (one.name, get_args(one.type)[0])
    for one in fields(Results)
    if one.name != "session"
}
"""For each file: its field of `Results` and the type of its rows."""


def results_of(files: Mapping[str, str], session: Mapping[str, str]) -> Results:
    """Parses the texts of files; `files` maps names to texts. Missing files count as empty."""
    found: dict[str, Any] = {
        field: tuple(rows_of(kind, files[name], name))
        for name, (field, kind) in FILES.items()
        if name in files
    }
    return Results(session, **found)
