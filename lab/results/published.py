"""Published results to compare with ours; `lab/reference/README.md` names the sources.

A published table is found by what it measured: the name of the row (the SFU), the number of
streams, whether all participants send, and the bitrate or the random intervals.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from lab.csvs import rows_of

FOLDER = Path(__file__).resolve().parent.parent / "reference"
THESIS_BITRATES_MBPS = (4.0, 2.5, 0.15, 0.076)
"""The bitrates that were measured in the thesis (one of the sources), in the thesis' order."""
MULTICAST_INTERVAL_MS = (36.0, 62.0)
"""The range of the times between packets.

It is in section 4.5 of the thesis; the multicast paper's README does not report it.
"""
_MULTICAST_TABLES = {
    ("p4_multicast", 1): ("multicast_one_stream", "P4 based SFU statistics with one stream"),
    ("p4_multicast", 2): ("multicast_two_streams", "P4 based SFU statistics with two streams"),
    ("userspace", 1): ("userspace_port_per_host", "Server based SFU statistics with one stream"),
    ("userspace", 2): ("userspace_port_per_host", "Server based SFU statistics with two streams"),
}


@dataclass(frozen=True, slots=True)
class Load:
    """The load of a published table, as far as the source describes it."""

    everybody_sends: bool
    n_streams: int
    """The number of streams of each sender."""
    bitrate_mbps: float | None
    interval_ms: tuple[float, float] | None = None
    """The range of the random times between packets."""


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """A row of a published summary.

    A packet's delay is that of its last copy, unless the table `is_per_copy`.
    """

    viewers: int
    min_delay_s: float
    max_delay_s: float
    avg_delay_s: float
    change_pct: float | None
    packets_lost: float | None = None
    packets: int | None = None
    """The packets that each host sent in all of its streams together."""
    volume_kbit: float | None = None


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """A row of the thesis' Tables 11 to 18."""

    sfu: str
    bitrate_mbps: float
    viewers: int
    run: int
    min_delay_s: float
    max_delay_s: float
    avg_delay_s: float
    packets_in: int
    packets_out: int
    packets_lost: int
    true_bitrate_kbps: float


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """A published summary of one SFU under one load, with its runs if they are published."""

    source: str
    title: str
    row: str
    load: Load
    rows: tuple[PublishedRow, ...]
    runs: tuple[PublishedRun, ...] = ()
    runs_title: str = ""
    figure: str = ""
    is_per_copy: bool = False
    """Whether the table's delays are of all copies, not only of packets' last copies."""

    def at(self, viewers: int) -> PublishedRow | None:
        return next((row for row in self.rows if row.viewers == viewers), None)

    def run(self, viewers: int, run: int) -> PublishedRun | None:
        wanted = (viewers, run)
        return next((row for row in self.runs if (row.viewers, row.run) == wanted), None)


@dataclass(frozen=True, slots=True)
class PublishedCost:
    """An SFU of which only a cost is published. Tables mark its row as published only."""

    row: str
    label: str
    source: str
    low_us: float
    high_us: float
    """The bounds of the cost of each further copy of a packet."""


PUBLISHED_ONLY = (
    PublishedCost(
        row="scallop_model",
        label="Scallop, software model (published only)",
        source="nearest published system",
        low_us=11.0,
        high_us=13.0,
    ),
)


@cache
def tables() -> tuple[PublishedTable, ...]:
    return (*_thesis(), *_multicast())


def table_for(row: str, load: Load) -> PublishedTable | None:
    """The published table for a row under a load, or None."""
    return next((table for table in tables() if (table.row, table.load) == (row, load)), None)


def _rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(newline="") as file:
        return list(csv.DictReader(file))


def _thesis() -> list[PublishedTable]:
    name = "thesis_extended.csv"
    summaries, runs = (
        _rows("thesis_summary.csv"),
        rows_of(PublishedRun, (FOLDER / name).read_text(), name),
    )
    found = []
    for idx, mbps in enumerate(THESIS_BITRATES_MBPS):
        for sfu, row in (("p4", "p4_recirculation"), ("userspace", "userspace")):
            number = 1 + 2 * idx + (sfu == "userspace")
            here = (sfu, mbps)
            name = "P4-based" if sfu == "p4" else "user space"
            found.append(
                PublishedTable(
                    source="thesis",
                    title=f"Table {number}: Summary results for {name} SFU at {mbps:g} Mbit/s",
                    row=row,
                    load=Load(everybody_sends=False, n_streams=1, bitrate_mbps=mbps),
                    rows=tuple(
                        _thesis_row(line)
                        for line in summaries
                        if (line["sfu"], float(line["bitrate_mbps"])) == here
                    ),
                    runs=tuple(run for run in runs if (run.sfu, run.bitrate_mbps) == here),
                    runs_title=f"Table {number + 10}: Extended results for {name} SFU "
                    f"at {mbps:g} Mbit/s",
                    figure=f"Figure {number + 22}",
                )
            )
    return found


def _thesis_row(line: Mapping[str, str]) -> PublishedRow:
    change = line["avg_delay_change_vs_previous_viewers_pct"]
    return PublishedRow(
        viewers=int(line["viewers"]),
        min_delay_s=float(line["min_delay_s"]),
        max_delay_s=float(line["max_delay_s"]),
        avg_delay_s=float(line["avg_delay_s"]),
        change_pct=float(change) if change else None,
        packets_lost=float(line["avg_packets_lost"]),
    )


def _multicast() -> list[PublishedTable]:
    lines = _rows("p4sfu_multicast.csv")
    return [
        PublishedTable(
            source="multicast README",
            title=title,
            row=row,
            load=Load(
                everybody_sends=True,
                n_streams=streams,
                bitrate_mbps=None,
                interval_ms=MULTICAST_INTERVAL_MS,
            ),
            rows=tuple(
                _multicast_row(line)
                for line in lines
                if (line["sfu"], int(line["streams"])) == (sfu, streams)
            ),
            is_per_copy=True,
        )
        for (sfu, streams), (row, title) in _MULTICAST_TABLES.items()
    ]


def _multicast_row(line: Mapping[str, str]) -> PublishedRow:
    volume = line["traffic_volume_kbit"]
    return PublishedRow(
        viewers=int(line["hosts"]) - 1,
        min_delay_s=float(line["min_delay_s"]),
        max_delay_s=float(line["max_delay_s"]),
        avg_delay_s=float(line["avg_delay_s"]),
        change_pct=float(line["avg_delay_increase_pct"]),
        packets=int(line["packets"]),
        volume_kbit=float(volume) if volume else None,
    )
