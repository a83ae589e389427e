"""Packets into a row and what comes out of it: every row passes `serves_and_stops_serving`."""

import os
import selectors
import signal
import socket
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from lab.frames import UdpFrame, checksums_are_right, parse_udp, udp_frame
from lab.netns import process_ids
from lab.process import ChildError
from lab.rows.row import Row
from lab.sites import RTP_SSRC, SFU_IP, SFU_UDP_PORT, Participant, Site, Stream
from lab.traffic import grow_receive_buffer

ETH_P_ALL = 3
PACKET_OUTGOING = 4
QUIET_S = 0.4
LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Copy:
    """A datagram that came to the hosts' end of a port."""

    port: int
    datagram: UdpFrame
    is_sound: bool
    """Its checksums are right."""


def packet_of(stream: Stream, site: Site, payload: bytes) -> bytes:
    """A frame of a stream, from its sender to the SFU."""
    link = site.links[stream.sender.port - 1]
    return udp_frame(
        UdpFrame(
            eth_src=stream.sender.mac,
            eth_dst=link.sfu_mac,
            src_ip=str(stream.sender.ip),
            dst_ip=str(SFU_IP),
            src_port=stream.udp_port,
            dst_port=stream.udp_port,
            payload=payload,
        )
    )


def exchange(
    site: Site,
    packets: Sequence[tuple[Stream, bytes]],
    n_due: int,
    interval_s: float = 0.002,
    limit_s: float = LIMIT_S,
) -> list[Copy]:
    """Sends payloads, one after the other; what came: `n_due` copies, and what came in too many.

    It waits at most `limit_s` for them.
    """
    return site.hosts.call(lambda: _exchange(site, packets, n_due, interval_s, limit_s))


def _exchange(
    site: Site,
    packets: Sequence[tuple[Stream, bytes]],
    n_due: int,
    interval_s: float,
    limit_s: float,
) -> list[Copy]:
    sockets = {}
    for link in site.links:
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        grow_receive_buffer(one)
        one.bind((link.host_interface, ETH_P_ALL))
        sockets[link.port] = one
    copies: list[Copy] = []

    def read(timeout_s: float) -> bool:
        events = selector.select(timeout_s)
        for key, _ in events:
            frame, address = key.fileobj.recvfrom(65536)  # type: ignore[union-attr]
            datagram = parse_udp(frame)
            if address[2] != PACKET_OUTGOING and datagram is not None:
                copies.append(Copy(key.data, datagram, checksums_are_right(frame)))
        return bool(events)

    with selectors.DefaultSelector() as selector:
        for port, one in sockets.items():
            selector.register(one, selectors.EVENT_READ, port)
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
    for one in sockets.values():
        one.close()
    return copies


def came(copies: Sequence[Copy]) -> Counter[tuple[str, bytes]]:
    """How often each viewer's address got each payload."""
    return Counter((copy.datagram.dst_ip, copy.datagram.payload) for copy in copies)


def came_by_port(copies: Sequence[Copy], site: Site) -> Counter[tuple[str, bytes]]:
    """The same where each viewer is behind a port of its own, whatever address copies have."""
    return Counter((str(site.participant(copy.port).ip), copy.datagram.payload) for copy in copies)


def due(
    stream_payloads: Sequence[bytes], viewers: Sequence[Participant]
) -> Counter[tuple[str, bytes]]:
    """Each payload once to each viewer."""
    return Counter((str(viewer.ip), payload) for viewer in viewers for payload in stream_payloads)


def rtp(sequence: int, n_bytes: int = 200) -> bytes:
    """An RTP packet (RFC 3550, section 5.1) with a payload of its own."""
    head = bytes([0x80, 96]) + sequence.to_bytes(2) + (sequence * 3000).to_bytes(4)
    return head + RTP_SSRC.to_bytes(4) + bytes((sequence * 31 + at) % 256 for at in range(n_bytes))


def serves_and_stops_serving(row: Row, udp_port: int = SFU_UDP_PORT) -> None:
    """Two viewers, then three, then one of them: they get all that is due, and nobody more."""
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
        if not row.readdresses:
            assert came_by_port(copies, site) == due(payloads, viewers)
            continue
        assert came(copies) == due(payloads, viewers)
        ports = {str(viewer.ip): viewer.port for viewer in viewers}
        assert all(copy.port == ports[copy.datagram.dst_ip] for copy in copies)


def tells_that_it_was_killed(row: Row) -> None:
    """Nobody can subscribe any more, and ending it is harmless."""
    stream = Stream(1, row.site.participant(1))
    row.subscribe(stream, row.site.participants(2, 1))
    for pid in row.pids:
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ChildError, match=r"\.log"):
        row.subscribe(stream, row.site.participants(2, 2))
    row.stop()
    row.stop()
    assert process_ids(row.site.sfu) == []
