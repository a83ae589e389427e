"""A benchmark's folder: the rows that experiments write and the report reads. Pure."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from lab.bench.rows import Row, rows_of
from lab.neobft.results import DelayRow, DistributionRow, NeobftRow, PassRow, SignatureRow
from lab.pisces.complexity import Change, Counted
from lab.pisces.results import PiscesRow

ALONE, BY_PLACE = -1, -2
"""Of a row's set: it was not measured in turns; in older files, where sets stand in order."""


@dataclass(frozen=True, slots=True)
class FanoutRow:
    """fanout.csv, and fanout-rounds.csv, one a round: one forwarder at one fan-out."""

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
class OverloadRow:
    """overload.csv: one forwarder at one multiple of its capacity."""

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
class PriorityRow:
    """priority.csv: two streams offered at once."""

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
class PipelineRow:
    """pipeline.csv: one part of a pipeline in one variant; `variant` holds the roles it has."""

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
class GrowthRow:
    """growth.csv: one pipeline, in which something has grown to a value."""

    program: str
    engine: str
    optimisations: str
    grows: str
    value: float
    ns_per_packet: float
    copies_per_packet: float
    ns_per_copy: float


@dataclass(frozen=True, slots=True)
class PktswitchRow:
    """pktswitch.csv: one forwarder on sockets, and past the kernel or in it, as its row says."""

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
class ProcessorRow:
    """kernel-processor.csv: what a forwarder takes of its processor."""

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
class SwitchingRow:
    """switching.csv, and switching-rounds.csv, one a set: small frames from one port to another."""

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
class ScalingRow:
    """scaling.csv, and scaling-rounds.csv, one a set: a forwarder on so many processors."""

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
class Results:
    """All rows, the facts of the session, the missing measurements, and the missing files."""

    session: Mapping[str, str]
    not_measured: tuple[str, ...]
    missing: tuple[str, ...]
    fanout: tuple[FanoutRow, ...]
    fanout_rounds: tuple[FanoutRow, ...]
    overload: tuple[OverloadRow, ...]
    priority: tuple[PriorityRow, ...]
    pipeline: tuple[PipelineRow, ...]
    growth: tuple[GrowthRow, ...]
    pktswitch: tuple[PktswitchRow, ...]
    kernel: tuple[FanoutRow, ...]
    kernel_rounds: tuple[FanoutRow, ...]
    kernel_processor: tuple[ProcessorRow, ...]
    switching: tuple[SwitchingRow, ...]
    switching_rounds: tuple[SwitchingRow, ...]
    scaling: tuple[ScalingRow, ...]
    scaling_rounds: tuple[ScalingRow, ...]
    pisces: tuple[PiscesRow, ...]
    pisces_complexity: tuple[Counted, ...]
    pisces_headers: tuple[Change, ...]
    neobft: tuple[NeobftRow, ...]
    neobft_delays: tuple[DelayRow, ...]
    neobft_distributions: tuple[DistributionRow, ...]
    neobft_passes: tuple[PassRow, ...]
    neobft_signatures: tuple[SignatureRow, ...]


FILES = (
    "pipeline.csv",
    "growth.csv",
    "fanout.csv",
    "fanout-rounds.csv",
    "overload.csv",
    "priority.csv",
    "pktswitch.csv",
    "kernel.csv",
    "kernel-rounds.csv",
    "kernel-processor.csv",
    "switching.csv",
    "switching-rounds.csv",
    "scaling.csv",
    "scaling-rounds.csv",
    "pisces.csv",
    "pisces-complexity.csv",
    "pisces-headers.csv",
    "neobft.csv",
    "neobft-delays.csv",
    "neobft-distributions.csv",
    "neobft-passes.csv",
    "neobft-signatures.csv",
)


def results_of(
    files: Mapping[str, str], session: Mapping[str, str], not_measured: tuple[str, ...]
) -> Results:
    """From the files' texts by name."""

    def rows(kind: type[Row], name: str) -> tuple[Row, ...]:
        return tuple(rows_of(kind, files[name], name)) if name in files else ()

    return Results(
        session=session,
        not_measured=not_measured,
        missing=tuple(name for name in FILES if name not in files),
        fanout=rows(FanoutRow, "fanout.csv"),
        fanout_rounds=rows(FanoutRow, "fanout-rounds.csv"),
        overload=rows(OverloadRow, "overload.csv"),
        priority=rows(PriorityRow, "priority.csv"),
        pipeline=rows(PipelineRow, "pipeline.csv"),
        growth=rows(GrowthRow, "growth.csv"),
        pktswitch=rows(PktswitchRow, "pktswitch.csv"),
        kernel=rows(FanoutRow, "kernel.csv"),
        kernel_rounds=rows(FanoutRow, "kernel-rounds.csv"),
        kernel_processor=rows(ProcessorRow, "kernel-processor.csv"),
        switching=rows(SwitchingRow, "switching.csv"),
        switching_rounds=rows(SwitchingRow, "switching-rounds.csv"),
        scaling=rows(ScalingRow, "scaling.csv"),
        scaling_rounds=rows(ScalingRow, "scaling-rounds.csv"),
        pisces=rows(PiscesRow, "pisces.csv"),
        pisces_complexity=rows(Counted, "pisces-complexity.csv"),
        pisces_headers=rows(Change, "pisces-headers.csv"),
        neobft=rows(NeobftRow, "neobft.csv"),
        neobft_delays=rows(DelayRow, "neobft-delays.csv"),
        neobft_distributions=rows(DistributionRow, "neobft-distributions.csv"),
        neobft_passes=rows(PassRow, "neobft-passes.csv"),
        neobft_signatures=rows(SignatureRow, "neobft-signatures.csv"),
    )
