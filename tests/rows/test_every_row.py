"""Tests what every row (an SFU that the lab measures) must do, with real packets."""

import socket
from pathlib import Path
from typing import Any

import pytest

from lab.netns import process_ids
from lab.process import REPOSITORY, ChildError
from lab.rows import gstreamer, in_kernel
from lab.rows.bridge import Bridge
from lab.rows.conference_service import ConferenceService
from lab.rows.gstreamer import GStreamerMultiUdpSink
from lab.rows.janus import JanusStreaming
from lab.rows.multicast import (
    HIGH_QUALITY_PORT,
    LOW_QUALITY_PORT,
    MulticastOneStream,
    MulticastTwoStreams,
)
from lab.rows.p4 import P4Recirculation, P4Replication
from lab.rows.row import Row, Variant
from lab.rows.rtpengine import RtpEngine
from lab.rows.scapy import Userspace, UserspacePortPerHost
from lab.rows.xdp_relay import XdpRelay
from lab.sites import SFU_UDP_PORT, SITES, VIEWER_UDP_PORT, Stream
from tests.needs import need
from tests.rows.exchange import (
    came,
    due,
    exchange,
    rtp,
    serves_and_stops_serving,
    serves_at_once,
    tells_that_it_was_killed,
    to_all_others,
)

pytestmark = pytest.mark.usefixtures("namespaces")

DEBIAN: list[type[Row]] = [RtpEngine, GStreamerMultiUdpSink, JanusStreaming]
"""SFUs in Debian's packages."""
ON_DEBIAN = [(row, topology) for row in DEBIAN for topology in ("one_port", "port_per_host")]
IN_USER_SPACE: list[tuple[type[Row], str]] = [
    (Userspace, "one_port"),
    (UserspacePortPerHost, "port_per_host"),
]
"""The SFUs in Scapy of two sources (docs/lab.md, "The sources' SFUs"), with their topologies."""
NATIVE = Variant("native", "afpacket", "sleep")
INTERPRETER = Variant("interpreter", "afpacket", "sleep")
NATIVE_AFXDP = Variant("native", "afxdp", "sleep")
SCAPY_INTERVAL_S = 0.05
"""The time between packets. Scapy needs some milliseconds for each copy."""


def case(
    row: type[Row], topology: str, variant: Variant | None = None, udp_port: int = SFU_UDP_PORT
) -> Any:
    one = variant or Variant()
    return pytest.param(row, topology, one, udp_port, id=f"{row.name} {one} {topology} {udp_port}")


@pytest.mark.parametrize(
    ("row", "topology", "variant", "udp_port"),
    [
        *(case(*one) for one in ON_DEBIAN + IN_USER_SPACE),
        case(P4Replication, "one_port", NATIVE),
        case(P4Replication, "one_port", Variant("interpreter", "udp", "sleep")),
        case(P4Replication, "port_per_host", NATIVE_AFXDP),
        case(P4Recirculation, "one_port", NATIVE),
        case(P4Replication, "one_port", Variant("kernel", in_kernel.PORT, in_kernel.SHARED)),
        case(P4Replication, "port_per_host", Variant("kernel", in_kernel.PORT, in_kernel.THREAD)),
        *(case(XdpRelay, "one_port", variant) for variant in XdpRelay.variants),
        case(ConferenceService, "one_port", NATIVE),
        case(ConferenceService, "one_port", Variant("interpreter", "udp", "sleep")),
        case(ConferenceService, "port_per_host", NATIVE_AFXDP),
        case(ConferenceService, "one_port", Variant("kernel", in_kernel.PORT, in_kernel.SHARED)),
        case(
            ConferenceService, "port_per_host", Variant("kernel", in_kernel.PORT, in_kernel.THREAD)
        ),
        case(Bridge, "port_per_host"),
        case(MulticastOneStream, "port_per_host", NATIVE, LOW_QUALITY_PORT),
        case(MulticastOneStream, "port_per_host", INTERPRETER, LOW_QUALITY_PORT),
        case(MulticastTwoStreams, "port_per_host", NATIVE, LOW_QUALITY_PORT),
        case(MulticastTwoStreams, "port_per_host", NATIVE, HIGH_QUALITY_PORT),
        case(MulticastTwoStreams, "port_per_host", NATIVE_AFXDP, HIGH_QUALITY_PORT),
    ],
)
def test_it_serves(
    row: type[Row],
    topology: str,
    variant: Variant,
    udp_port: int,
    *,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    if variant.port in ("afxdp", in_kernel.PORT):
        request.getfixturevalue("system_root")
    need(row.lacks())
    with SITES[topology](4) as site:
        with row(site, variant, tmp_path) as running:
            serves_and_stops_serving(running, udp_port)
            # Threads of the kernel are not in the SFU's namespace.
            if variant.port != in_kernel.PORT:
                assert set(running.pids) <= set(process_ids(site.sfu))
        assert process_ids(site.sfu) == []


@pytest.mark.parametrize("row", [*DEBIAN, Userspace])
def test_streams_of_one_sender_have_viewers_of_their_own(row: type[Row], tmp_path: Path) -> None:
    need(row.lacks())
    with SITES["one_port"](5) as site, row(site, Variant(), tmp_path) as running:
        first = Stream(1, site.participant(1), 5004, 6000)
        second = Stream(2, site.participant(1), 5104, 6100)
        of_first, of_second = site.participants(2, 2), site.participants(3, 3)
        running.subscribe(first, of_first)
        running.subscribe(second, of_second)
        packets = [(first, rtp(1)), (second, rtp(1001))]
        copies = exchange(site, packets, 5, interval_s=SCAPY_INTERVAL_S)
        assert came(copies) == due([rtp(1)], of_first) + due([rtp(1001)], of_second)
        ports = {
            payload: stream.viewer_udp_port if row in DEBIAN else stream.udp_port
            for stream, payload in packets
        }
        assert all(copy.datagram.dst_port == ports[copy.datagram.payload] for copy in copies)


@pytest.mark.parametrize(
    ("row", "topology", "udp_ports"),
    [
        *((*one, (SFU_UDP_PORT,)) for one in ON_DEBIAN),
        *((*one, (LOW_QUALITY_PORT, HIGH_QUALITY_PORT)) for one in IN_USER_SPACE),
    ],
)
def test_everybody_may_send_and_view(
    row: type[Row], topology: str, udp_ports: tuple[int, ...], tmp_path: Path
) -> None:
    need(row.lacks())
    with SITES[topology](4) as site, row(site, Variant(), tmp_path) as running:
        copies = serves_at_once(running, to_all_others(site, *udp_ports), SCAPY_INTERVAL_S)
        assert all(copy.is_sound for copy in copies)
        arrived_at = {copy.datagram.dst_port for copy in copies}
        assert arrived_at == ({VIEWER_UDP_PORT} if row in DEBIAN else {*udp_ports})


def test_everybody_joins_leaves_and_joins_again_by_the_service(tmp_path: Path) -> None:
    with SITES["one_port"](9) as site, ConferenceService(site, NATIVE, tmp_path) as running:
        with pytest.raises(ValueError, match="to UDP port 5004, found 5006"):
            running.subscribe_all(to_all_others(site, 5006))
        everybody = to_all_others(site, SFU_UDP_PORT)
        for _ in range(2):
            assert len(serves_at_once(running, everybody)) == 9 * 8
            running.subscribe_all([(stream, []) for stream, _ in everybody])
            assert exchange(site, [(everybody[0][0], rtp(1))], 0) == []


def test_a_bridge_says_that_all_streams_must_have_the_same_participants(tmp_path: Path) -> None:
    with SITES["port_per_host"](4) as site, Bridge(site, Variant(), tmp_path) as running:
        running.subscribe(Stream(1, site.participant(1)), site.participants(2, 3))
        with pytest.raises(ValueError, match="found 2 groups"):
            running.subscribe(Stream(2, site.participant(2)), site.participants(3, 2))


@pytest.mark.parametrize(
    ("row", "topology"), [*((row, "one_port") for row in DEBIAN), *IN_USER_SPACE]
)
def test_a_process_that_was_killed_is_told(row: type[Row], topology: str, tmp_path: Path) -> None:
    need(row.lacks())
    with SITES[topology](3) as site, row(site, Variant(), tmp_path) as running:
        tells_that_it_was_killed(running)


@pytest.mark.parametrize("row", DEBIAN)
def test_many_viewers_and_large_packets(row: type[Row], tmp_path: Path) -> None:
    need(row.lacks())
    with SITES["one_port"](41) as site, row(site, Variant(), tmp_path) as running:
        stream = Stream(1, site.participant(1))
        viewers = site.participants(2, 40)
        running.subscribe(stream, viewers)
        payloads = [rtp(sequence, n_bytes=1350) for sequence in range(1, 4)]
        copies = exchange(site, [(stream, one) for one in payloads], 120, interval_s=0.05)
        assert came(copies) == due(payloads, viewers)


@pytest.mark.parametrize("row", [GStreamerMultiUdpSink, JanusStreaming])
def test_a_port_that_is_taken_is_told(row: type[Row], tmp_path: Path) -> None:
    need(row.lacks())

    def take() -> socket.socket:
        taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        taken.bind(("0.0.0.0", SFU_UDP_PORT))
        return taken

    with SITES["one_port"](2) as site, site.sfu.call(take):
        running = row(site, Variant(), tmp_path)
        with pytest.raises(ChildError, match=rf"\b{SFU_UDP_PORT}\b"), running:
            running.subscribe(Stream(1, site.participant(1)), site.participants(2, 1))
        assert process_ids(site.sfu) == []


@pytest.mark.parametrize("row", DEBIAN)
def test_what_is_missing_is_told_with_the_next_step(
    row: type[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(gstreamer, "PYTHON", "/nonexistent/python3")
    assert row.lacks().endswith(f": run scripts/install-packages {row.packages}")
    options = (REPOSITORY / "scripts/install-packages").read_text()
    assert f"\n    {row.packages})\n" in options
