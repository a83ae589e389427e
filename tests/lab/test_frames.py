from dataclasses import replace

import pytest

from lab.addresses import SFU_IP, SFU_MAC, ip_of, mac_of
from lab.frames import UdpFrame, checksums_are_right, parse_udp, udp_frame
from lab.traffic import Burst, payload, sequence_of

DATAGRAM = UdpFrame(mac_of(1), SFU_MAC, ip_of(1), SFU_IP, 5004, 5004, b"h1000001xxx")


def test_a_frame_is_parsed_into_what_it_was_built_from() -> None:
    assert parse_udp(udp_frame(DATAGRAM)) == DATAGRAM


def test_a_built_frame_has_right_checksums_and_any_changed_bit_makes_them_wrong() -> None:
    frame = udp_frame(DATAGRAM)
    assert checksums_are_right(frame)
    for bit in range(26 * 8, len(frame) * 8):
        changed = bytearray(frame)
        changed[bit // 8] ^= 1 << bit % 8
        if not 38 * 8 <= bit < 40 * 8:  # the length says what the checksum covers
            assert not checksums_are_right(bytes(changed)), f"bit {bit}"


def test_a_udp_checksum_of_zero_is_sent_as_all_ones() -> None:
    sums = set()
    for word in range(0x10000):
        frame = udp_frame(replace(DATAGRAM, payload=word.to_bytes(2, "big")))
        sums.add(frame[40:42])
    assert b"\0\0" not in sums
    assert b"\xff\xff" in sums


def test_what_is_not_a_whole_udp_datagram_is_not_parsed() -> None:
    frame = udp_frame(DATAGRAM)
    arp = frame[:12] + b"\x08\x06" + frame[14:]
    tcp = frame[:23] + b"\x06" + frame[24:]
    fragment = frame[:20] + b"\x20\x00" + frame[22:]
    assert [parse_udp(f) for f in (arp, tcp, fragment, frame[:41], b"")] == [None] * 5


def test_padding_of_a_short_frame_is_no_payload() -> None:
    short = replace(DATAGRAM, payload=b"abc")
    assert parse_udp(udp_frame(short) + bytes(15)) == short


def test_a_payload_makes_a_frame_of_the_wanted_length() -> None:
    frame = udp_frame(replace(DATAGRAM, payload=payload(1, 7, 1400)))
    assert len(frame) == 1400
    assert len(payload(1, 7, 1400)) == 1358


@pytest.mark.parametrize(("host", "sequence"), [(1, 1), (1, 300), (12, 1), (99, 999_999), (1, 0)])
def test_the_sequence_is_read_back_from_a_payload(host: int, sequence: int) -> None:
    assert sequence_of(payload(host, sequence, 100)) == sequence


def test_a_foreign_payload_has_no_sequence() -> None:
    assert [sequence_of(data) for data in (b"", b"h1", b"hello", b"x1000001")] == [None] * 4


def test_payloads_of_different_hosts_and_sequences_differ() -> None:
    payloads = [payload(h, s, 100) for h in (1, 10, 11, 100) for s in (1, 10, 1001, 100_001)]
    assert len(set(payloads)) == len(payloads)


def test_300_packets_of_1400_bytes_at_4_mbit_per_second_are_2800_us_apart() -> None:
    burst = Burst(host=1, n_packets=300, rate_bps=4e6)
    assert burst.interval_ns == 2_800_000
    assert burst.duration_s == pytest.approx(0.8372)
