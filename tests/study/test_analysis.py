import csv
import io
import lzma
import math
from dataclasses import replace

import pytest

from lab import pcap
from lab.addresses import SFU_IP, ip_of
from lab.pcap import Record
from lab.study.analysis import (
    ExtendedRow,
    Run,
    SummaryRow,
    checks,
    extended_rows,
    measure,
    summary_rows,
)
from lab.study.csvs import to_csv
from lab.study.definitions import RunId, Sfu
from tests.study.synthetic import arrival, as_pcap, copy, measurement

VIEWERS = (ip_of(2), ip_of(3))

# Delays to the last copy: 300, 500, 900, 100, 2000 us; to the first: 100, 500, 200, 50, 1000 us.
CAPTURE = [
    copy(-50, 9, 2),  # without an original
    arrival(0, 1),
    copy(100, 1, 2),
    copy(300, 1, 3),
    arrival(1000, 2),
    copy(1500, 2, 2),  # its copy to viewer 3 is missing
    arrival(2000, 3),
    copy(2200, 3, 2),
    copy(2300, 3, 3),
    arrival(2600, 4),
    copy(2650, 4, 3),  # before a copy of packet 3, and viewer 3 before viewer 2
    copy(2700, 4, 2),
    copy(2900, 3, 3),  # a second time
    arrival(3000, 5),  # lost
    arrival(4000, 6),
    copy(5000, 6, 2),
    copy(6000, 6, 3),
    Record(0, b"\xff" * 12 + b"\x08\x06" + bytes(46)),  # ARP is none of ours
]
EXPECTED = {
    "sfu": "userspace",
    "bitrate_mbps": "16.8",
    "packet_size_bytes": "1400",
    "viewers": "2",
    "run": "1",
    "duration_s": "0.004000000",
    "min_delay_s": "0.000100000",
    "max_delay_s": "0.002000000",
    "avg_delay_s": "0.000760000",
    "stddev_delay_s": f"{math.sqrt(2_272_000 / 5) / 1e6:.9f}",
    "packets_in": "6",
    "packets_out": "11",
    "packets_lost_in": "1",
    "packets_lost_out": "1",
    "volume_in_kbit": "67.2",
    "volume_out_kbit": "123.2",
    "avg_delay_change_vs_previous_run_pct": "",
    "true_bitrate_kbps": "16800.000",
    "repeats": "2",
    "copies_missing": "3",
    "min_first_copy_delay_s": "0.000050000",
    "avg_first_copy_delay_s": "0.000370000",
    "p99_delay_s": "0.002000000",
    "sfu_cpu_s": "0.25",
}
RUN = RunId(Sfu.USERSPACE, 16.8, 2, 1)


def row_of(records: list[Record]) -> dict[str, str]:
    # Through the file format and its compression, as in a folder.
    stored = lzma.decompress(lzma.compress(as_pcap(records)))
    measured = measure(pcap.records(stored), SFU_IP, VIEWERS)
    rows = extended_rows([Run(RUN, measured, repeats=2, sfu_cpu_s=0.25)])
    return next(iter(csv.DictReader(io.StringIO(to_csv(ExtendedRow, rows)))))


def test_every_column_of_a_known_capture_has_its_exact_value_in_the_issues_order() -> None:
    found = row_of(CAPTURE)
    assert found == EXPECTED
    assert list(found) == list(EXPECTED)


def test_the_delay_ends_with_the_last_copy_whichever_viewer_it_is_for() -> None:
    found = row_of([arrival(0, 1), copy(10, 1, 3), copy(30, 1, 2)])
    assert (found["min_first_copy_delay_s"], found["max_delay_s"]) == ("0.000010000", "0.000030000")


def test_a_run_without_copies_has_no_delay_and_lost_every_packet() -> None:
    found = row_of([arrival(0, 1), arrival(100, 2)])
    assert found["avg_delay_s"] == found["p99_delay_s"] == found["stddev_delay_s"] == ""
    assert (found["packets_lost_in"], found["copies_missing"], found["packets_out"]) == (
        "2",
        "4",
        "0",
    )


def test_a_capture_without_packets_has_no_bitrate() -> None:
    found = row_of([copy(0, 1, 2)])
    assert (found["true_bitrate_kbps"], found["duration_s"]) == ("", "0.000000000")
    assert found["packets_lost_out"] == "1"


def test_p99_is_the_delay_that_99_of_100_packets_do_not_exceed() -> None:
    records = [
        record
        for idx in range(200)
        for record in (arrival(idx * 1000, idx), copy(idx * 1000 + idx + 1, idx, 2))
    ]
    assert row_of(records)["p99_delay_s"] == "0.000198000"


@pytest.mark.parametrize(
    ("kbps", "paced"), [(4004, True), (3996, True), (4004.1, False), (3995.9, False)]
)
def test_a_run_is_paced_within_a_thousandth(kbps: float, paced: bool) -> None:
    assert replace(measurement(0.1, 1), true_bitrate_kbps=kbps).is_paced(4000) is paced


def run(
    viewers: int, number: int, avg_s: float | None, *, lost: int = 0, bitrate: float = 4.0
) -> Run:
    one = RunId(Sfu.P4_RECIRCULATION, bitrate, viewers, number)
    return Run(one, measurement(avg_s, viewers, lost), repeats=0, sfu_cpu_s=0)


def test_each_run_is_compared_with_the_one_before_it_in_its_series_only() -> None:
    runs = [run(1, 2, 0.002), run(1, 1, 0.001), run(2, 1, 0.003), run(1, 1, 0.001, bitrate=2.5)]
    found = [row.avg_delay_change_vs_previous_run_pct for row in extended_rows(runs)]
    assert found == [None, pytest.approx(100), pytest.approx(50), None]


def test_a_summary_row_has_extremes_averages_and_the_populations_deviation() -> None:
    runs = [run(1, 1, 0.001), run(1, 2, 0.002), run(1, 3, 0.006, lost=3), run(2, 1, 0.006)]
    found = to_csv(SummaryRow, summary_rows(extended_rows(runs))).splitlines()
    assert found == [
        "sfu,bitrate_mbps,viewers,min_delay_s,max_delay_s,avg_delay_s,"
        "avg_delay_change_vs_previous_viewers_pct,stddev_of_avg_delay_between_runs_s,runs,"
        "avg_packets_lost_in,avg_packets_lost_out,avg_copies_missing",
        "p4_recirculation,4,1,0.000500000,0.012000000,0.003000000,,0.002160247,3,1,0,1",
        "p4_recirculation,4,2,0.003000000,0.012000000,0.006000000,100.00,0.000000000,1,0,0,0",
    ]


def test_a_run_without_delay_does_not_count_as_a_delay_of_zero() -> None:
    rows = summary_rows(extended_rows([run(1, 1, None, lost=300), run(1, 2, 0.002)]))
    assert (rows[0].avg_delay_s, rows[0].avg_packets_lost_in) == (0.002, 150)


def test_the_checks_name_the_rows_that_fail() -> None:
    lossy, paced = checks(extended_rows([run(1, 1, 0.001), run(2, 1, 0.001, lost=4)]))
    assert not lossy.holds
    assert lossy.failures == (
        "p4_recirculation, 4 Mbit/s, 2 viewers, run 1: 4 lost in, 0 lost out, 8 copies missing, "
        "592 out of 300 in",
    )
    assert paced.holds
    assert not checks(extended_rows([run(1, 1, 0.1, bitrate=2.5)]))[1].holds
