"""Captures and results made by hand, for the tests of the pure modules."""

from lab import pcap
from lab.addresses import SFU_IP, SFU_MAC, ip_of, mac_of
from lab.frames import UdpFrame, udp_frame
from lab.pcap import Record
from lab.study.analysis import Measurement, Run
from lab.study.definitions import RunId, Sfu, Study
from lab.traffic import payload

EPOCH_NS = 1_700_000_000_000_000_000
FRAME_LEN_BYTES = 1400


def arrival(time_us: int, sequence: int) -> Record:
    data = payload(1, sequence, FRAME_LEN_BYTES)
    datagram = UdpFrame(mac_of(1), SFU_MAC, ip_of(1), SFU_IP, 5004, 5004, data)
    return Record(EPOCH_NS + time_us * 1000, udp_frame(datagram))


def copy(time_us: int, sequence: int, viewer: int) -> Record:
    data = payload(1, sequence, FRAME_LEN_BYTES)
    datagram = UdpFrame(SFU_MAC, mac_of(viewer), ip_of(1), ip_of(viewer), 5004, 5004, data)
    return Record(EPOCH_NS + time_us * 1000, udp_frame(datagram))


def as_pcap(records: list[Record]) -> bytes:
    return pcap.file_header(2048) + b"".join(
        pcap.record_header(
            *divmod(record.time_ns, pcap.NS_PER_S), len(record.frame), len(record.frame)
        )
        + record.frame
        for record in records
    )


def measurement(
    avg_s: float | None, viewers: int, lost: int = 0, true_kbps: float = 4000
) -> Measurement:
    known = avg_s or 0.0
    return Measurement(
        packet_size_bytes=1400,
        duration_s=0.84,
        min_delay_s=avg_s and known / 2,
        max_delay_s=avg_s and known * 2,
        avg_delay_s=avg_s,
        stddev_delay_s=avg_s and known / 10,
        packets_in=300,
        packets_out=(300 - lost) * viewers,
        packets_lost_in=lost,
        packets_lost_out=0,
        volume_in_kbit=3360,
        volume_out_kbit=(300 - lost) * viewers * 11.2,
        true_bitrate_kbps=true_kbps,
        copies_missing=lost * viewers,
        min_first_copy_delay_s=avg_s and known / 3,
        avg_first_copy_delay_s=avg_s and known / 2,
        p99_delay_s=avg_s and known * 1.9,
    )


def runs_of(study: Study) -> list[Run]:
    def run(one: RunId) -> Run:
        per_copy_s = 0.02 if one.sfu is Sfu.USERSPACE else 0.0001
        average_s = per_copy_s * one.viewers * (1 + one.run / 100)
        found = measurement(average_s, one.viewers, true_kbps=one.bitrate_kbps)
        return Run(one, found, repeats=0, sfu_cpu_s=0.1)

    return [run(one) for one in study.runs()]
