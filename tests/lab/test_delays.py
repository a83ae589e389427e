import math

import pytest

from lab import pcap
from lab import text as report
from lab.addresses import SFU_IP, SFU_MAC, ip_of, mac_of
from lab.delays import Seen, Summary, datagrams, match, summarise
from lab.frames import UdpFrame, udp_frame
from lab.traffic import payload

VIEWERS = (ip_of(2), ip_of(3))


def arrival(time_us: int, sequence: int) -> Seen:
    data = payload(1, sequence, 100)
    datagram = UdpFrame(mac_of(1), SFU_MAC, ip_of(1), SFU_IP, 5004, 5004, data)
    return Seen(time_us * 1000, datagram)


def copy(time_us: int, sequence: int, viewer: int) -> Seen:
    data = payload(1, sequence, 100)
    datagram = UdpFrame(SFU_MAC, mac_of(viewer), SFU_IP, ip_of(viewer), 5004, 5004, data)
    return Seen(time_us * 1000, datagram)


def summary_of(*seen: Seen) -> Summary:
    return summarise(match(seen, SFU_IP), VIEWERS)


def test_delays_are_counted_from_arrival_to_first_and_last_copy() -> None:
    found = summary_of(
        arrival(0, 1), copy(10, 1, 2), copy(30, 1, 3),
        arrival(100, 2), copy(120, 2, 2), copy(150, 2, 3),
    )  # fmt: skip
    assert found.n_packets_in == 2
    assert found.n_copies_out == 4
    assert (found.n_lost, found.n_duplicated, found.n_out_of_order, found.n_unmatched) == (0,) * 4
    assert found.first_copy_delay.avg_s == pytest.approx(15e-6)
    assert found.first_copy_delay.max_s == pytest.approx(20e-6)
    assert found.last_copy_delay.min_s == pytest.approx(30e-6)
    assert found.last_copy_delay.avg_s == pytest.approx(40e-6)
    assert found.duration_s == pytest.approx(100e-6)


def test_copies_of_packets_that_wait_in_a_queue_are_matched_by_payload() -> None:
    found = summary_of(
        arrival(0, 1), arrival(1, 2), copy(10, 1, 2), copy(11, 1, 3), copy(12, 2, 2), copy(13, 2, 3)
    )
    assert (found.n_lost, found.n_duplicated, found.n_out_of_order) == (0, 0, 0)
    assert found.last_copy_delay.max_s == pytest.approx(12e-6)


def test_a_missing_copy_is_lost_and_a_doubled_one_duplicated() -> None:
    found = summary_of(arrival(0, 1), copy(1, 1, 2), copy(2, 1, 2), arrival(3, 2))
    assert (found.n_lost, found.n_duplicated) == (3, 1)


def test_a_copy_before_its_packet_or_of_an_unknown_one_is_unmatched() -> None:
    found = summary_of(copy(0, 1, 2), arrival(1, 1), copy(2, 1, 2), copy(3, 1, 3), copy(4, 9, 2))
    assert (found.n_unmatched, found.n_copies_out, found.n_lost) == (2, 2, 0)


def test_a_copy_that_overtakes_one_for_the_same_viewer_is_out_of_order() -> None:
    found = summary_of(
        arrival(0, 1), arrival(1, 2), copy(2, 2, 2), copy(3, 2, 3), copy(4, 1, 2), copy(5, 1, 3)
    )
    assert found.n_out_of_order == 2


def test_without_copies_there_is_no_delay() -> None:
    found = summary_of(arrival(0, 1))
    assert found.n_lost == 2
    assert math.isnan(found.first_copy_delay.avg_s)


def test_a_pcap_file_keeps_frames_and_nanoseconds() -> None:
    frames = [udp_frame(arrival(0, 1).datagram), b"\xff" * 60]
    data = pcap.file_header(2048) + b"".join(
        pcap.record_header(1_700_000_000, 123_456_789 + idx, len(frame), len(frame)) + frame
        for idx, frame in enumerate(frames)
    )
    found = list(pcap.records(data))
    assert [record.frame for record in found] == frames
    assert found[1].time_ns == 1_700_000_000_123_456_790
    assert [seen.datagram.dst_ip for seen in datagrams(found)] == [SFU_IP]


@pytest.mark.parametrize("cut", [1, 20, 60])
def test_a_cut_pcap_file_is_refused(cut: int) -> None:
    data = pcap.file_header(2048) + pcap.record_header(1, 2, 60, 60) + bytes(60)
    with pytest.raises(pcap.PcapError):
        list(pcap.records(data[:-cut]))


def test_a_pcap_file_with_microseconds_is_refused_by_name_of_its_magic() -> None:
    with pytest.raises(pcap.PcapError, match="0xa1b2c3d4"):
        list(pcap.records(b"\xd4\xc3\xb2\xa1" + bytes(20)))


def test_a_table_is_aligned() -> None:
    assert report.table(("name", "n"), [("a", "1"), ("bcdef", "100")]).splitlines() == [
        "name     n",
        "-----  ---",
        "a        1",
        "bcdef  100",
    ]


def test_a_run_is_a_row_in_milliseconds() -> None:
    row = report.delay_row(summary_of(arrival(0, 1), copy(10, 1, 2), copy(1500, 1, 3)))
    assert row == ("2", "1", "2", "0", "0", "0", "0.010", "0.010", "1.500", "1.500")
