"""The rows of all benchmarks' files, which measuring writes and the report reads. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, get_args

from lab.csvs import rows_of

ALONE, BY_PLACE = -1, -2
"""Of a row's set: it was not measured in turns; in older files, where sets stand in order."""


class BenchmarkRow:
    __slots__ = ()
    names: ClassVar[tuple[str, ...]] = ()
    """The columns that say of what it is: rows that differ in none of them are sets of the same."""
    measured: ClassVar[tuple[str, ...]] = ()
    """The columns by which two studies are compared."""


@dataclass(frozen=True, slots=True)
class FanoutRow(BenchmarkRow):
    """fanout.csv, and fanout-rounds.csv, one a round: one forwarder at one fan-out."""

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
    """Where copies are counted (`lab.bench.load`); empty in files older than the choice."""
    set: int = BY_PLACE
    """Which set of turns, or `ALONE`."""
    sets: int = 1
    """How many the row is the median of."""
    trial_s: float = math.nan
    """How long the trial was that decided."""
    bound_by: str = ""
    """What failed just above the rate: `loss` or `lateness`; or the `load` could send no more."""
    is_peak_least: int = 0
    """1: all that could be offered came, the peak may be higher."""
    late_share: float = math.nan
    """Of the copies of the trial that decided: what came after the last packet was sent."""
    kernel_share: float = math.nan
    """Of the processor time of the trial that decided: what the kernel had, by its tick."""
    is_disturbed: int = 0
    """1: others used the processors in the trial that decided, each time that it was repeated."""


@dataclass(frozen=True, slots=True)
class OverloadRow(BenchmarkRow):
    """overload.csv: one forwarder at one multiple of its capacity."""

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
    """What the load came to; one processor cannot push every multiple."""
    viewers_spread_pct: float
    """By how much the viewer with the fewest copies has less than the one with the most."""
    drops: float
    """Packets and copies that the switch counted as dropped, all reasons."""
    vanished: float
    """Packets and copies that neither came out nor were counted: 0."""
    of_peak: float
    """At the most that was offered alone: its rate over the peak's, the median of pairs."""


@dataclass(frozen=True, slots=True)
class PriorityRow(BenchmarkRow):
    """priority.csv: two streams offered at once."""

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
    """pipeline.csv: one part of a pipeline in one variant; `variant` holds the roles it has."""

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
        """`reference`, `naive`, `all`, `step N NAME`, `alone NAME`, `without NAME`."""
        return self.variant.split("; ")


@dataclass(frozen=True, slots=True)
class GrowthRow(BenchmarkRow):
    """growth.csv: one pipeline, in which something has grown to a value."""

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
    """pktswitch.csv: one forwarder on sockets, and past the kernel or in it, as its row says."""

    names = ("row", "engine", "wait", "fanout")
    measured = ("overhead_bypass_ns", "delay_bypass_us", "busy_delay_bypass_us")
    row: str
    engine: str
    wait: str
    fanout: int
    overhead_sockets_ns: float
    """Processor time a copy at the highest lossless rate; see `pktswitch.overhead_ns`."""
    overhead_bypass_ns: float
    overhead_reduction_pct: float
    delay_sockets_us: float
    """Median of the last copy at 360 packets a second."""
    delay_bypass_us: float
    delay_reduction_pct: float
    busy_rate_pps: float
    busy_delay_sockets_us: float
    """Mean over copies at a rate near the most that the sockets carry."""
    busy_delay_bypass_us: float
    busy_delay_reduction_pct: float
    lossless_sockets_copies_per_s: float
    lossless_bypass_copies_per_s: float


@dataclass(frozen=True, slots=True)
class ProcessorRow(BenchmarkRow):
    """kernel-processor.csv: what a forwarder takes of its processor."""

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
    """Of one processor, without a packet."""
    cpu_ns_per_copy: float
    """One that spins takes its processor, whatever comes."""


@dataclass(frozen=True, slots=True)
class SwitchingRow(BenchmarkRow):
    """switching.csv, and switching-rounds.csv, one a set: small frames from one port to another."""

    names = ("program", "switch", "frame_bytes")
    measured = ("packets_per_s_lossless", "packets_per_s_peak")
    program: str
    switch: str
    """As `lab.pisces.switches` names them."""
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
    """scaling.csv, and scaling-rounds.csv, one a set: a forwarder on so many processors."""

    names = ("row", "engine", "port", "wait", "processors", "fanout")
    measured = ("copies_per_s_lossless",)
    row: str
    engine: str
    port: str
    wait: str
    processors: int
    fanout: int
    copies_per_s_lossless: float
    """Of all streams together."""
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
    """pisces.csv, and pisces-sets.csv, one a set: a switch with a program, at a frame size."""

    names = ("program", "switch", "variant", "flow_caches", "port", "frame_bytes")
    measured = ("packets_per_s_lossless", "packets_per_s_peak")
    program: str
    switch: str
    variant: str
    """`naive` or `optimised`; Open vSwitch has no choice."""
    optimisations: str
    """What `--optimise` was told, with spaces between."""
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
    """Of frames, without preamble, check sequence and gap, which a veth does not have."""
    mbit_per_s_peak: float
    lossless_of_ovs: float
    """Beside Open vSwitch with flow caches alike, in the same set."""
    peak_of_ovs: float
    trial_s: float = math.nan
    """How long the trial was that decided about loss."""
    late_share: float = math.nan
    """Of its frames: those that came after the last one was sent."""
    kernel_share: float = math.nan
    """Of its processor time: what the kernel had, by its tick."""
    disturbed: float = math.nan
    """Of the sets: those in whose trial others used the processors each time."""


def mbit_per_s(packets_per_s: float, frame_bytes: int) -> float:
    """The frames' bits."""
    return packets_per_s * frame_bytes * 8 / 1e6


@dataclass(frozen=True, slots=True)
class Counted(BenchmarkRow):
    """A program, with its includes from the repository."""

    name: str
    files: int
    lines: int
    functions: int
    """Functions of C; actions and functions of P4."""
    tables: int
    states: int
    blocks: int
    """Parsers and controls."""


@dataclass(frozen=True, slots=True)
class Change(BenchmarkRow):
    """The lines of a new header."""

    name: str
    files: int
    lines: int


@dataclass(frozen=True, slots=True)
class NeobftRow(BenchmarkRow):
    """neobft.csv: the capacity of one contestant, for a number of receivers."""

    names = ("kind", "receivers")
    measured = ("requests_per_s_peak", "requests_per_s_lossless")
    kind: str
    """`tagged` (AOM-HM), `signed` (AOM-PK) or `plain`, multicast of as many copies."""
    receivers: int
    packets_per_request: int
    """That leave the switch: receivers times shards."""
    turns: int
    frame_bytes: int
    requests_per_s_peak: float
    copies_per_s_peak: float
    requests_per_s_lossless: float
    of_plain: float
    """Its peak beside plain multicast of as many copies: the median of the turns' ratios."""
    signed_share: float
    """Of the copies at its peak, those with a signature; 0 where nobody signs."""


@dataclass(frozen=True, slots=True)
class DelayRow(BenchmarkRow):
    """neobft-delays.csv: a quantile of one variant's delay under one load."""

    kind: str
    load_pct: int
    """Of the highest rate without loss."""
    requests_per_s: float
    samples: int
    quantile_pct: float
    delay_us: float


@dataclass(frozen=True, slots=True)
class DistributionRow(BenchmarkRow):
    """neobft-distributions.csv: so many samples of that delay; from these come the CDFs."""

    kind: str
    load_pct: int
    delay_us: float
    count: int


@dataclass(frozen=True, slots=True)
class PassRow(BenchmarkRow):
    """neobft-passes.csv: the cost of a request inside the switch, without ports."""

    engine: str
    what: str
    """`tags` (no copies), `whole`, or `plain` multicast of as many copies."""
    receivers: int
    copies: int
    ns_per_request: float


@dataclass(frozen=True, slots=True)
class SignatureRow(BenchmarkRow):
    """neobft-signatures.csv: one turn of the signer, in memory."""

    turn: int
    pooled_per_s: float
    fresh_per_s: float


@dataclass(frozen=True, slots=True)
class Results:
    """The rows of all benchmarks, each field of the file of its name; the facts of the session."""

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


FILES: dict[str, tuple[str, type[BenchmarkRow]]] = {
    f"{one.name.replace('_', '-')}.csv": (one.name, get_args(one.type)[0])
    for one in fields(Results)
    if one.name != "session"
}
"""Of each file the field of `Results` and the type of its rows."""


def results_of(files: Mapping[str, str], session: Mapping[str, str]) -> Results:
    """From the files' texts by name; what is not there has no rows."""
    found: dict[str, Any] = {
        field: tuple(rows_of(kind, files[name], name))
        for name, (field, kind) in FILES.items()
        if name in files
    }
    return Results(session, **found)
