"""The rows that are packages of Debian's, with real packets."""

import socket
from collections import Counter
from pathlib import Path

import pytest

from lab.netns import process_ids
from lab.process import REPOSITORY, ChildError
from lab.rows import gstreamer
from lab.rows.gstreamer import GStreamerMultiUdpSink
from lab.rows.janus import JanusStreaming
from lab.rows.row import Row, Variant
from lab.rows.rtpengine import RtpEngine
from lab.sites import SFU_UDP_PORT, SITES, Stream
from tests.needs import need
from tests.rows.exchange import (
    came,
    due,
    exchange,
    rtp,
    serves_and_stops_serving,
    tells_that_it_was_killed,
)

pytestmark = pytest.mark.usefixtures("namespaces")

ROWS: list[type[Row]] = [RtpEngine, GStreamerMultiUdpSink, JanusStreaming]


@pytest.fixture(params=ROWS)
def row(request: pytest.FixtureRequest) -> type[Row]:
    kind: type[Row] = request.param
    need(kind.lacks())
    return kind


@pytest.mark.parametrize("topology", ["one_port", "port_per_host"])
def test_it_serves(row: type[Row], topology: str, tmp_path: Path) -> None:
    with SITES[topology](4) as site:
        with row(site, Variant(), tmp_path) as running:
            serves_and_stops_serving(running)
            assert set(running.pids) <= set(process_ids(site.sfu))
        assert process_ids(site.sfu) == []


@pytest.mark.parametrize("row", ROWS)
def test_what_is_missing_is_told_with_the_next_step(
    row: type[Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(gstreamer, "PYTHON", "/nonexistent/python3")
    assert row.lacks().endswith(f": run scripts/install-packages {row.packages}")
    options = (REPOSITORY / "scripts/install-packages").read_text()
    assert f"\n    {row.packages})\n" in options


def test_streams_have_viewers_of_their_own(row: type[Row], tmp_path: Path) -> None:
    with SITES["one_port"](5) as site, row(site, Variant(), tmp_path) as running:
        first = Stream(1, site.participant(1), 5004, 6000)
        second = Stream(2, site.participant(1), 5104, 6100)
        of_first, of_second = site.participants(2, 2), site.participants(3, 3)
        running.subscribe(first, of_first)
        running.subscribe(second, of_second)
        one, other = rtp(1), rtp(1001)
        copies = exchange(site, [(first, one), (second, other)], 5)
        assert came(copies) == due([one], of_first) + due([other], of_second)
        ports = {one: first.viewer_udp_port, other: second.viewer_udp_port}
        assert all(copy.datagram.dst_port == ports[copy.datagram.payload] for copy in copies)


@pytest.mark.parametrize("topology", ["one_port", "port_per_host"])
def test_senders_may_send_to_the_same_port(row: type[Row], topology: str, tmp_path: Path) -> None:
    with SITES[topology](4) as site, row(site, Variant(), tmp_path) as running:
        streams = [Stream(number, site.participant(number)) for number in (1, 2, 3)]
        packets = [(stream, rtp(1000 * stream.number)) for stream in streams]
        everybody = site.participants(1, 4)
        expected = Counter[tuple[str, bytes]]()
        for stream, payload in packets:
            viewers = [viewer for viewer in everybody if viewer != stream.sender]
            running.subscribe(stream, viewers)
            expected += due([payload], viewers)
        assert came(exchange(site, packets, 9)) == expected


def test_many_viewers_and_large_packets(row: type[Row], tmp_path: Path) -> None:
    with SITES["one_port"](41) as site, row(site, Variant(), tmp_path) as running:
        stream = Stream(1, site.participant(1))
        viewers = site.participants(2, 40)
        running.subscribe(stream, viewers)
        payloads = [rtp(sequence, n_bytes=1350) for sequence in range(1, 4)]
        copies = exchange(site, [(stream, one) for one in payloads], 120, interval_s=0.05)
        assert came(copies) == due(payloads, viewers)


def test_a_process_that_was_killed_is_told(row: type[Row], tmp_path: Path) -> None:
    with SITES["one_port"](3) as site, row(site, Variant(), tmp_path) as running:
        tells_that_it_was_killed(running)


@pytest.mark.parametrize("row", [GStreamerMultiUdpSink, JanusStreaming], indirect=True)
def test_a_port_that_is_taken_is_told(row: type[Row], tmp_path: Path) -> None:

    def take() -> socket.socket:
        taken = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        taken.bind(("0.0.0.0", SFU_UDP_PORT))
        return taken

    with SITES["one_port"](2) as site, site.sfu.call(take):
        running = row(site, Variant(), tmp_path)
        with pytest.raises(ChildError, match=rf"\b{SFU_UDP_PORT}\b"), running:
            running.subscribe(Stream(1, site.participant(1)), site.participants(2, 1))
        assert process_ids(site.sfu) == []
