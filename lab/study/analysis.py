"""From captured frames to the rows of `extended.csv` and `summary.csv`. Pure.

The method is the thesis' (section 3.3), its definitions made exact:

- A packet is a UDP datagram to the SFU's address, a copy one to any other; a copy belongs to the
  packet with the same payload that arrived last before it.
- The delay of a packet is the time from its arrival on the SFU's link to its last copy on it (the
  minima in the thesis' tables grow with the viewers, so it can only be that). The delay to the
  first copy stands beside it. A packet without a copy has no delay.
- Lost in: packets without any copy. Lost out: copies without a packet. Copies missing: pairs of a
  packet and a viewer without a copy, lost packets' ones among them.
- True bitrate: volume of all packets over the time from the first to the last one's arrival.
- Volumes are whole frames without FCS, in kilobits (the thesis' "KB" are).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from lab.delays import Matched, Seen, match
from lab.frames import parse_udp
from lab.pcap import NS_PER_S, Record
from lab.study.definitions import RunId, Sfu, is_paced
from lab.study.statistics import change_pct, mean, percentile, population_stddev


@dataclass(frozen=True, slots=True)
class Measurement:
    """What the capture of one run says."""

    packet_size_bytes: float | None
    duration_s: float
    min_delay_s: float | None
    max_delay_s: float | None
    avg_delay_s: float | None
    stddev_delay_s: float | None
    packets_in: int
    packets_out: int
    packets_lost_in: int
    packets_lost_out: int
    volume_in_kbit: float
    volume_out_kbit: float
    true_bitrate_kbps: float | None
    copies_missing: int
    min_first_copy_delay_s: float | None
    avg_first_copy_delay_s: float | None
    p99_delay_s: float | None

    def is_paced(self, nominal_kbps: float) -> bool:
        """Whether the true bitrate is the nominal one within the tolerance."""
        return is_paced(self.true_bitrate_kbps, nominal_kbps)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a study: what was captured, and what a capture does not say."""

    id: RunId
    measurement: Measurement
    repeats: int
    sfu_cpu_s: float


@dataclass(frozen=True, slots=True)
class ExtendedRow:
    """A row of `extended.csv`, a run; columns in this order."""

    sfu: Sfu
    bitrate_mbps: float
    packet_size_bytes: float | None
    viewers: int
    run: int
    duration_s: float
    min_delay_s: float | None
    max_delay_s: float | None
    avg_delay_s: float | None
    stddev_delay_s: float | None
    packets_in: int
    packets_out: int
    packets_lost_in: int
    packets_lost_out: int
    volume_in_kbit: float
    volume_out_kbit: float
    avg_delay_change_vs_previous_run_pct: float | None
    true_bitrate_kbps: float | None
    repeats: int
    copies_missing: int
    min_first_copy_delay_s: float | None
    avg_first_copy_delay_s: float | None
    p99_delay_s: float | None
    sfu_cpu_s: float


@dataclass(frozen=True, slots=True)
class SummaryRow:
    """A row of `summary.csv`, the runs with one number of viewers; columns in this order."""

    sfu: Sfu
    bitrate_mbps: float
    viewers: int
    min_delay_s: float | None
    max_delay_s: float | None
    avg_delay_s: float | None
    avg_delay_change_vs_previous_viewers_pct: float | None
    stddev_of_avg_delay_between_runs_s: float | None
    runs: int
    avg_packets_lost_in: float
    avg_packets_lost_out: float
    avg_copies_missing: float


def measure(records: Iterable[Record], sfu_ip: str, viewer_ips: Sequence[str]) -> Measurement:
    """Measures a run in which every packet is due once at each of `viewer_ips`."""
    seen: list[Seen] = []
    sizes_in: list[int] = []
    bytes_out = 0
    packets_out = 0
    for record in records:
        datagram = parse_udp(record.frame)
        if datagram is None:
            continue
        seen.append(Seen(record.time_ns, datagram))
        if datagram.dst_ip == sfu_ip:
            sizes_in.append(len(record.frame))
        else:
            packets_out += 1
            bytes_out += len(record.frame)
    matched = match(seen, sfu_ip)
    arrivals_ns = [packet.arrived.time_ns for packet in matched.packets]
    duration_ns = max(arrivals_ns) - min(arrivals_ns) if arrivals_ns else 0
    last_s, first_s = _delays_s(matched)
    volume_in_kbit = sum(sizes_in) * 8 / 1000
    return Measurement(
        packet_size_bytes=mean(sizes_in),
        duration_s=duration_ns / NS_PER_S,
        min_delay_s=min(last_s, default=None),
        max_delay_s=max(last_s, default=None),
        avg_delay_s=mean(last_s),
        stddev_delay_s=population_stddev(last_s),
        packets_in=len(matched.packets),
        packets_out=packets_out,
        packets_lost_in=sum(not packet.copies for packet in matched.packets),
        packets_lost_out=len(matched.unmatched_copies),
        volume_in_kbit=volume_in_kbit,
        volume_out_kbit=bytes_out * 8 / 1000,
        true_bitrate_kbps=volume_in_kbit * NS_PER_S / duration_ns if duration_ns else None,
        copies_missing=_count_missing(matched, viewer_ips),
        min_first_copy_delay_s=min(first_s, default=None),
        avg_first_copy_delay_s=mean(first_s),
        p99_delay_s=percentile(last_s, 99),
    )


def _delays_s(matched: Matched) -> tuple[list[float], list[float]]:
    last_s: list[float] = []
    first_s: list[float] = []
    for packet in matched.packets:
        if packet.copies:
            times_ns = [copy.time_ns for copy in packet.copies]
            last_s.append((max(times_ns) - packet.arrived.time_ns) / NS_PER_S)
            first_s.append((min(times_ns) - packet.arrived.time_ns) / NS_PER_S)
    return last_s, first_s


def _count_missing(matched: Matched, viewer_ips: Sequence[str]) -> int:
    return sum(
        len(set(viewer_ips) - {copy.datagram.dst_ip for copy in packet.copies})
        for packet in matched.packets
    )


def extended_rows(runs: Sequence[Run]) -> list[ExtendedRow]:
    """The rows of the runs, by series; each is compared with the one before it in its series."""
    rows: list[ExtendedRow] = []
    for run in sorted(runs, key=_position):
        one, it = run.id, run.measurement
        before = rows[-1] if rows else None
        same_series = before is not None and (before.sfu, before.bitrate_mbps) == (
            one.sfu,
            one.bitrate_mbps,
        )
        rows.append(
            ExtendedRow(
                sfu=one.sfu,
                bitrate_mbps=one.bitrate_mbps,
                packet_size_bytes=it.packet_size_bytes,
                viewers=one.viewers,
                run=one.run,
                duration_s=it.duration_s,
                min_delay_s=it.min_delay_s,
                max_delay_s=it.max_delay_s,
                avg_delay_s=it.avg_delay_s,
                stddev_delay_s=it.stddev_delay_s,
                packets_in=it.packets_in,
                packets_out=it.packets_out,
                packets_lost_in=it.packets_lost_in,
                packets_lost_out=it.packets_lost_out,
                volume_in_kbit=it.volume_in_kbit,
                volume_out_kbit=it.volume_out_kbit,
                avg_delay_change_vs_previous_run_pct=change_pct(
                    it.avg_delay_s, before.avg_delay_s if before and same_series else None
                ),
                true_bitrate_kbps=it.true_bitrate_kbps,
                repeats=run.repeats,
                copies_missing=it.copies_missing,
                min_first_copy_delay_s=it.min_first_copy_delay_s,
                avg_first_copy_delay_s=it.avg_first_copy_delay_s,
                p99_delay_s=it.p99_delay_s,
                sfu_cpu_s=run.sfu_cpu_s,
            )
        )
    return rows


def _position(run: Run) -> tuple[int, float, int, int]:
    one = run.id
    return (list(Sfu).index(one.sfu), -one.bitrate_mbps, one.viewers, one.run)


def summary_rows(rows: Sequence[ExtendedRow]) -> list[SummaryRow]:
    """The rows of `summary.csv` for those of `extended.csv`."""
    summaries: list[SummaryRow] = []
    for (sfu, bitrate, viewers), group in groupby(
        rows, key=lambda row: (row.sfu, row.bitrate_mbps, row.viewers)
    ):
        members = list(group)
        averages = [row.avg_delay_s for row in members if row.avg_delay_s is not None]
        average = mean(averages)
        before = summaries[-1] if summaries else None
        same_series = before is not None and (before.sfu, before.bitrate_mbps) == (sfu, bitrate)
        summaries.append(
            SummaryRow(
                sfu=sfu,
                bitrate_mbps=bitrate,
                viewers=viewers,
                min_delay_s=min(
                    (row.min_delay_s for row in members if row.min_delay_s is not None),
                    default=None,
                ),
                max_delay_s=max(
                    (row.max_delay_s for row in members if row.max_delay_s is not None),
                    default=None,
                ),
                avg_delay_s=average,
                avg_delay_change_vs_previous_viewers_pct=change_pct(
                    average, before.avg_delay_s if before and same_series else None
                ),
                stddev_of_avg_delay_between_runs_s=population_stddev(averages),
                runs=len(members),
                avg_packets_lost_in=sum(row.packets_lost_in for row in members) / len(members),
                avg_packets_lost_out=sum(row.packets_lost_out for row in members) / len(members),
                avg_copies_missing=sum(row.copies_missing for row in members) / len(members),
            )
        )
    return summaries


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must hold in the rows; `failures` says where it does not."""

    name: str
    n_rows: int
    failures: tuple[str, ...]

    @property
    def holds(self) -> bool:
        """Whether it holds in every row, of which there is at least one."""
        return self.n_rows > 0 and not self.failures


def checks(rows: Sequence[ExtendedRow]) -> list[Check]:
    """The checks of a study: P4 SFUs lose nothing, every run has its bitrate."""
    p4 = [row for row in rows if row.sfu.is_p4]
    unpaced = [
        f"{_where(row)}: {row.true_bitrate_kbps} kbit/s"
        for row in rows
        if not is_paced(row.true_bitrate_kbps, row.bitrate_mbps * 1000)
    ]
    lossy = [
        f"{_where(row)}: {row.packets_lost_in} lost in, {row.packets_lost_out} lost out, "
        f"{row.copies_missing} copies missing, {row.packets_out} out of {row.packets_in} in"
        for row in p4
        if row.packets_lost_in
        or row.packets_lost_out
        or row.copies_missing
        or row.packets_out != row.viewers * row.packets_in
    ]
    name = "every P4 run: nothing lost, no copy missing, packets out = viewers x packets in"
    return [
        Check(name, len(p4), tuple(lossy)),
        Check("every run: true bitrate within 0.1 % of the nominal one", len(rows), tuple(unpaced)),
    ]


def _where(row: ExtendedRow) -> str:
    return f"{row.sfu}, {row.bitrate_mbps:g} Mbit/s, {row.viewers} viewers, run {row.run}"
