"""What a benchmark's folder holds, as rows with the columns that the report reads. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from lab.bench.rows import Row, rows_of


@dataclass(frozen=True, slots=True)
class FanoutRow:
    """fanout.csv: one forwarder at one fan-out."""

    forwarder: str
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


@dataclass(frozen=True, slots=True)
class OverloadRow:
    """overload.csv: one forwarder offered one multiple of what it can carry."""

    forwarder: str
    engine: str
    port: str
    wait: str
    fanout: int
    offered_over_capacity: float
    copies_per_s: float
    loss: float
    last_copy_p99_us: float
    viewers_spread_pct: float
    vanished: float


@dataclass(frozen=True, slots=True)
class PriorityRow:
    """priority.csv: two streams offered at once."""

    forwarder: str
    engine: str
    port: str
    fanout: int
    offered_over_capacity: float
    audio_loss: float
    video_loss: float


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
    """pktswitch.csv: one forwarder on sockets and past the kernel."""

    forwarder: str
    engine: str
    wait: str
    fanout: int
    overhead_sockets_ns: float
    overhead_bypass_ns: float
    overhead_reduction_pct: float
    delay_sockets_us: float
    delay_bypass_us: float
    delay_reduction_pct: float
    busy_delay_sockets_us: float
    busy_delay_bypass_us: float
    busy_delay_reduction_pct: float


@dataclass(frozen=True, slots=True)
class KneeRow:
    """knee.csv: one forwarder with a number of viewers at 4 Mbit/s."""

    forwarder: str
    engine: str
    port: str
    wait: str
    viewers: int
    delay_avg_ms: float
    loss: float


@dataclass(frozen=True, slots=True)
class Results:
    """All rows, the facts of the session, what was not measured, and which files are missing."""

    session: Mapping[str, str]
    not_measured: tuple[str, ...]
    missing: tuple[str, ...]
    fanout: tuple[FanoutRow, ...]
    overload: tuple[OverloadRow, ...]
    priority: tuple[PriorityRow, ...]
    pipeline: tuple[PipelineRow, ...]
    growth: tuple[GrowthRow, ...]
    pktswitch: tuple[PktswitchRow, ...]
    knee: tuple[KneeRow, ...]


FILES = (
    "pipeline.csv",
    "growth.csv",
    "fanout.csv",
    "overload.csv",
    "priority.csv",
    "pktswitch.csv",
    "knee.csv",
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
        overload=rows(OverloadRow, "overload.csv"),
        priority=rows(PriorityRow, "priority.csv"),
        pipeline=rows(PipelineRow, "pipeline.csv"),
        growth=rows(GrowthRow, "growth.csv"),
        pktswitch=rows(PktswitchRow, "pktswitch.csv"),
        knee=rows(KneeRow, "knee.csv"),
    )
