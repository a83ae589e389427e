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
class Results:
    """All rows, the facts of the session, what was not measured, and which files are missing."""

    session: Mapping[str, str]
    not_measured: tuple[str, ...]
    missing: tuple[str, ...]
    fanout: tuple[FanoutRow, ...]
    overload: tuple[OverloadRow, ...]


FILES = ("fanout.csv", "overload.csv")


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
    )
