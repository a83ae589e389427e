"""Matches each packet that arrived at the SFU with its copies and measures their delays. No I/O.

The method is the thesis' (section 3.3): both directions are seen at one point of the SFU's link; a
packet and its copies share a unique payload; delay is a copy's time minus the packet's time.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from lab.frames import UdpFrame, parse_udp
from lab.pcap import NS_PER_S, Record


@dataclass(frozen=True, slots=True)
class Seen:
    time_ns: int
    datagram: UdpFrame


@dataclass(slots=True)
class Packet:
    """A packet that arrived, with its copies in the order in which they left."""

    arrived: Seen
    copies: list[Seen] = field(default_factory=list)

    @property
    def destinations(self) -> tuple[str, ...]:
        """The copies' IPv4 destinations, in the order in which they left."""
        return tuple(copy.datagram.dst_ip for copy in self.copies)


@dataclass(frozen=True, slots=True)
class Matched:
    """Packets in order of arrival, and copies that match no packet that arrived before them."""

    packets: list[Packet]
    unmatched_copies: list[Seen]


@dataclass(frozen=True, slots=True)
class DelayStatistics:
    min_s: float
    avg_s: float
    max_s: float


@dataclass(frozen=True, slots=True)
class Summary:
    n_viewers: int
    n_packets_in: int
    n_copies_out: int
    n_lost: int
    n_duplicated: int
    n_out_of_order: int
    n_unmatched: int
    first_copy_delay: DelayStatistics
    last_copy_delay: DelayStatistics
    duration_s: float


def datagrams(records: Iterable[Record]) -> list[Seen]:
    """The UDP datagrams among captured frames, in the order of capture."""
    parsed = ((record.time_ns, parse_udp(record.frame)) for record in records)
    return [Seen(time_ns, datagram) for time_ns, datagram in parsed if datagram is not None]


def match(seen: Iterable[Seen], sfu_ip: str) -> Matched:
    """Matches packets (datagrams to `sfu_ip`) and copies (all other datagrams) by payload.

    If a payload arrives twice, these are two packets, and later copies belong to the second one.
    """
    packets: list[Packet] = []
    by_payload: dict[bytes, Packet] = {}
    unmatched: list[Seen] = []
    for one in seen:
        payload = one.datagram.payload
        if one.datagram.dst_ip == sfu_ip:
            packet = Packet(one)
            packets.append(packet)
            by_payload[payload] = packet
        elif (original := by_payload.get(payload)) is not None:
            original.copies.append(one)
        else:
            unmatched.append(one)
    return Matched(packets, unmatched)


def summarise(matched: Matched, viewer_ips: Sequence[str]) -> Summary:
    """Computes the counts and delays of a run.

    In this run each viewer in `viewer_ips` must get one copy of every packet.
    """
    n_lost = 0
    n_duplicated = 0
    for packet in matched.packets:
        n_by_ip = Counter(packet.destinations)
        n_lost += sum(1 for ip in viewer_ips if not n_by_ip[ip])
        n_duplicated += sum(n - 1 for n in n_by_ip.values())
    served = [packet for packet in matched.packets if packet.copies]
    times_ns = [packet.arrived.time_ns for packet in matched.packets]
    return Summary(
        n_viewers=len(viewer_ips),
        n_packets_in=len(matched.packets),
        n_copies_out=sum(len(packet.copies) for packet in matched.packets),
        n_lost=n_lost,
        n_duplicated=n_duplicated,
        n_out_of_order=count_out_of_order(matched.packets),
        n_unmatched=len(matched.unmatched_copies),
        first_copy_delay=_statistics([_delay_s(packet, packet.copies[0]) for packet in served]),
        last_copy_delay=_statistics([_delay_s(packet, packet.copies[-1]) for packet in served]),
        duration_s=(max(times_ns) - min(times_ns)) / NS_PER_S if times_ns else 0.0,
    )


def count_out_of_order(packets: Sequence[Packet]) -> int:
    """How many copies left after a copy of a later packet to the same viewer."""
    copies = sorted(
        (copy.time_ns, packet_idx, copy.datagram.dst_ip)
        for packet_idx, packet in enumerate(packets)
        for copy in packet.copies
    )
    latest_idx: dict[str, int] = {}
    n_late = 0
    for _, packet_idx, ip in copies:
        n_late += packet_idx < latest_idx.get(ip, -1)
        latest_idx[ip] = max(packet_idx, latest_idx.get(ip, -1))
    return n_late


def _delay_s(packet: Packet, copy: Seen) -> float:
    return (copy.time_ns - packet.arrived.time_ns) / NS_PER_S


def _statistics(delays_s: Sequence[float]) -> DelayStatistics:
    if not delays_s:
        nan = float("nan")
        return DelayStatistics(nan, nan, nan)
    return DelayStatistics(min(delays_s), sum(delays_s) / len(delays_s), max(delays_s))
