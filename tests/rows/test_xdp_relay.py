"""The SFU that is written by hand in XDP (the relay), with real packets."""

import json
from pathlib import Path

from lab.rows.xdp_relay import XdpRelay
from lab.sites import SFU_UDP_PORT, OnePort, Stream
from tests.needs import need
from tests.rows.exchange import came, due, exchange, rtp


def test_it_counts_what_it_copies_and_why_it_drops(system_root: None, tmp_path: Path) -> None:
    need(XdpRelay.lacks())
    with OnePort(4) as site, XdpRelay(site, XdpRelay.variants[0], tmp_path) as running:
        stream = Stream(1, site.participant(1))
        other = Stream(2, site.participant(1), udp_port=SFU_UDP_PORT + 2)
        running.subscribe(stream, site.participants(2, 3))
        payloads = [rtp(number) for number in range(5)]
        packets = [(stream, one) for one in payloads] + [(other, rtp(number)) for number in (7, 8)]
        copies = exchange(site, packets, 15)
        assert came(copies) == due(payloads, site.participants(2, 3))
        running.subscribe(stream, [])
        assert exchange(site, [(stream, rtp(9))], 0) == []
    counted = json.loads((tmp_path / "xdp_relay.log").read_text().splitlines()[-1])
    expected = {"copies": 15, "malformed": 0, "ttl_is_over": 0, "no_stream": 3, "no_viewer": 0}
    assert counted == expected
