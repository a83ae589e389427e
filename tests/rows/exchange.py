"""Sends packets through a row (an SFU). Every row must pass `serves_and_stops_serving`."""

import itertools
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from lab.frames import UdpFrame, checksums_are_right, parse_udp, udp_frame
from lab.netns import process_ids
from lab.process import ChildError
from lab.rows.row import Row
from lab.rows.shared_groups import Subscription
from lab.sites import RTP_SSRC, SFU_IP, SFU_UDP_PORT, Participant, Site, Stream
from tests.packet_sockets import FRAME_LEN_BYTES_MAX, at_links

QUIET_S = 0.4
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Copy:
    """A datagram that came to the hosts' end of a port."""

    port: int
    datagram: UdpFrame
    is_sound: bool
    """Whether the IPv4 and UDP checksums of the datagram are right."""


def datagram(
    site: Site, sender: Participant, src_port: int, dst_port: int, payload: bytes
) -> UdpFrame:
    """A datagram from a participant to the SFU."""
    return UdpFrame(
        eth_src=sender.mac,
        eth_dst=site.links[sender.port - 1].sfu_mac,
        src_ip=str(sender.ip),
        dst_ip=str(SFU_IP),
        src_port=src_port,
        dst_port=dst_port,
        payload=payload,
    )


def packet_of(stream: Stream, site: Site, payload: bytes) -> bytes:
    """A frame of a stream, from its sender to the SFU."""
    return udp_frame(datagram(site, stream.sender, stream.udp_port, stream.udp_port, payload))


def exchange(
    site: Site,
    packets: Sequence[tuple[Stream, bytes]],
    n_due: int,
    interval_s: float = 0.002,
    limit_s: float = LIMIT_S,
) -> list[Copy]:
    """Sends payloads one after the other; returns the `n_due` copies, and all surplus copies.

    Waits at most `limit_s` for the copies.
    """
    copies: list[Copy] = []
    with at_links(site) as (sockets, selector):

        def read(timeout_s: float) -> bool:
            events = selector.select(timeout_s)
            for key, _ in events:
                frame = sockets[key.data].recv(FRAME_LEN_BYTES_MAX)
                if (seen := parse_udp(frame)) is not None:
                    copies.append(Copy(key.data, seen, checksums_are_right(frame)))
            return bool(events)

        for stream, payload in packets:
            sockets[stream.sender.port].send(packet_of(stream, site, payload))
            until_s = time.monotonic() + interval_s
            while (left_s := until_s - time.monotonic()) > 0:
                read(left_s)
        waits_until_s = time.monotonic() + limit_s
        while len(copies) < n_due and time.monotonic() < waits_until_s:
            read(0.1)
        while read(QUIET_S):
            pass
    return copies


def came(copies: Sequence[Copy]) -> Counter[tuple[str, bytes]]:
    """How often each viewer's address got each payload."""
    return Counter((copy.datagram.dst_ip, copy.datagram.payload) for copy in copies)


def reached(row: Row, copies: Sequence[Copy]) -> Counter[tuple[str, bytes]]:
    """How often each viewer got each payload.

    If a row does not change addresses, the viewer is the participant behind the port by which a
    copy came.
    """
    if row.readdresses:
        return came(copies)
    viewers = {copy.port: str(row.site.participant(copy.port).ip) for copy in copies}
    return Counter((viewers[copy.port], copy.datagram.payload) for copy in copies)


def due(
    stream_payloads: Sequence[bytes], viewers: Sequence[Participant]
) -> Counter[tuple[str, bytes]]:
    """Returns the copies that must come: each payload once at each viewer."""
    return Counter((str(viewer.ip), payload) for viewer in viewers for payload in stream_payloads)


def rtp(sequence: int, n_bytes: int = 200) -> bytes:
    """Makes an RTP packet (RFC 3550, section 5.1). Its payload depends on its sequence number."""
    head = bytes([0x80, 96]) + sequence.to_bytes(2) + (sequence * 3000).to_bytes(4)
    return head + RTP_SSRC.to_bytes(4) + bytes((sequence * 31 + at) % 256 for at in range(n_bytes))


def serves_and_stops_serving(row: Row, udp_port: int = SFU_UDP_PORT) -> None:
    """Subscribes two viewers, then three, then one; each must get all its copies, and no more."""
    site = row.site
    stream = Stream(1, site.participant(1), udp_port)
    everybody = site.participants(2, 3)
    sequence = 1
    for viewers in (everybody[:2], everybody, everybody[1:2]):
        row.subscribe(stream, viewers)
        payloads = [rtp(sequence + offset) for offset in range(5)]
        sequence += len(payloads)
        copies = exchange(site, [(stream, one) for one in payloads], len(payloads) * len(viewers))
        assert all(copy.is_sound for copy in copies)
        assert reached(row, copies) == due(payloads, viewers)
        if row.readdresses:
            ports = {str(viewer.ip): viewer.port for viewer in viewers}
            assert all(copy.port == ports[copy.datagram.dst_ip] for copy in copies)


def to_all_others(site: Site, *udp_ports: int) -> list[Subscription]:
    """Makes a stream of each participant to each of these SFU ports; all others view it."""
    everybody = site.participants(1, site.n_participants)
    return [
        (Stream(number, sender, udp_port), [one for one in everybody if one != sender])
        for number, (udp_port, sender) in enumerate(itertools.product(udp_ports, everybody), 1)
    ]


def serves_at_once(
    row: Row, subscriptions: Sequence[Subscription], interval_s: float = 0.002
) -> list[Copy]:
    """Checks that a packet of each stream comes to the stream's viewers, and to nobody else."""
    row.subscribe_all(subscriptions)
    packets = [(stream, rtp(1000 * stream.number)) for stream, _ in subscriptions]
    expected = Counter[tuple[str, bytes]]()
    for (_, viewers), (_, payload) in zip(subscriptions, packets, strict=True):
        expected += due([payload], viewers)
    copies = exchange(row.site, packets, expected.total(), interval_s)
    assert reached(row, copies) == expected
    return copies


def tells_that_it_was_killed(row: Row, says: str = r"\.log", udp_port: int = SFU_UDP_PORT) -> None:
    """Kills the row's processes: then subscribing must fail with a message; stopping must work."""
    stream = Stream(1, row.site.participant(1), udp_port)
    row.subscribe(stream, row.site.participants(2, 1))
    for pid in row.pids:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ChildError, match=says):
        row.subscribe(stream, row.site.participants(2, 2))
    row.stop()
    row.stop()
    assert process_ids(row.site.sfu) == []
