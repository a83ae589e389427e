"""The published figures that ours are set beside; `lab/reference/README.md` names the sources."""

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab.study.definitions import Sfu

FOLDER = Path(__file__).resolve().parent.parent / "reference"
_SFU_BY_NAME = {"p4": Sfu.P4_RECIRCULATION, "userspace": Sfu.USERSPACE}


@dataclass(frozen=True, slots=True)
class PublishedSummary:
    """A row of the thesis' Tables 1 to 8."""

    sfu: Sfu
    bitrate_mbps: float
    viewers: int
    min_delay_s: float
    max_delay_s: float
    avg_delay_s: float
    change_pct: float | None
    stddev_s: float
    avg_packets_lost: float


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """A row of the thesis' Tables 11 to 18."""

    sfu: Sfu
    bitrate_mbps: float
    viewers: int
    run: int
    min_delay_s: float
    max_delay_s: float
    avg_delay_s: float
    stddev_delay_s: float
    packets_in: int
    packets_out: int
    packets_lost: int
    true_bitrate_kbps: float


@dataclass(frozen=True, slots=True)
class Published:
    """The thesis' results; its P4 SFU is the recirculating one."""

    summaries: tuple[PublishedSummary, ...]
    runs: tuple[PublishedRun, ...]

    def summary(self, sfu: Sfu, bitrate_mbps: float, viewers: int) -> PublishedSummary | None:
        """The row for a number of viewers; the replicating P4 SFU is set beside the P4 one."""
        wanted = (_published_as(sfu), bitrate_mbps, viewers)
        return next(
            (row for row in self.summaries if (row.sfu, row.bitrate_mbps, row.viewers) == wanted),
            None,
        )

    def series(self, sfu: Sfu, bitrate_mbps: float) -> list[PublishedSummary]:
        """All rows of one SFU at one bitrate."""
        wanted = (_published_as(sfu), bitrate_mbps)
        return [row for row in self.summaries if (row.sfu, row.bitrate_mbps) == wanted]

    def run(self, sfu: Sfu, bitrate_mbps: float, viewers: int, run: int) -> PublishedRun | None:
        """The row of one run."""
        wanted = (_published_as(sfu), bitrate_mbps, viewers, run)
        return next(
            (
                row
                for row in self.runs
                if (row.sfu, row.bitrate_mbps, row.viewers, row.run) == wanted
            ),
            None,
        )


def _published_as(sfu: Sfu) -> Sfu:
    return Sfu.P4_RECIRCULATION if sfu.is_p4 else Sfu.USERSPACE


def parse(summary_csv: str, extended_csv: str) -> Published:
    """Reads the two files of the thesis."""
    return Published(
        tuple(_summary(row) for row in csv.DictReader(io.StringIO(summary_csv))),
        tuple(_run(row) for row in csv.DictReader(io.StringIO(extended_csv))),
    )


def load() -> Published:
    """The published figures that lie beside the lab."""
    return parse(
        (FOLDER / "thesis_summary.csv").read_text(), (FOLDER / "thesis_extended.csv").read_text()
    )


def _summary(row: Mapping[str, str]) -> PublishedSummary:
    change = row["avg_delay_change_vs_previous_viewers_pct"]
    return PublishedSummary(
        sfu=_SFU_BY_NAME[row["sfu"]],
        bitrate_mbps=float(row["bitrate_mbps"]),
        viewers=int(row["viewers"]),
        min_delay_s=float(row["min_delay_s"]),
        max_delay_s=float(row["max_delay_s"]),
        avg_delay_s=float(row["avg_delay_s"]),
        change_pct=float(change) if change else None,
        stddev_s=float(row["stddev_of_avg_delay_between_runs_s"]),
        avg_packets_lost=float(row["avg_packets_lost"]),
    )


def _run(row: Mapping[str, str]) -> PublishedRun:
    return PublishedRun(
        sfu=_SFU_BY_NAME[row["sfu"]],
        bitrate_mbps=float(row["bitrate_mbps"]),
        viewers=int(row["viewers"]),
        run=int(row["run"]),
        min_delay_s=float(row["min_delay_s"]),
        max_delay_s=float(row["max_delay_s"]),
        avg_delay_s=float(row["avg_delay_s"]),
        stddev_delay_s=float(row["stddev_delay_s"]),
        packets_in=int(row["packets_in"]),
        packets_out=int(row["packets_out"]),
        packets_lost=int(row["packets_lost"]),
        true_bitrate_kbps=float(row["true_bitrate_kbps"]),
    )
