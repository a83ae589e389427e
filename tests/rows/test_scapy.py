"""The sources' SFUs in user space, with real packets."""

from collections import Counter
from pathlib import Path

import pytest

from lab.netns import process_ids
from lab.rows.row import Variant
from lab.rows.scapy import ScapyRow, Userspace, UserspacePortPerHost
from lab.sites import SITES, Participant, Stream
from tests.rows.exchange import (
    came,
    due,
    exchange,
    rtp,
    serves_and_stops_serving,
    tells_that_it_was_killed,
)

pytestmark = pytest.mark.usefixtures("namespaces")

ROWS = [(Userspace, "one_port"), (UserspacePortPerHost, "port_per_host")]
INTERVAL_S = 0.05
"""Scapy takes some milliseconds a copy."""


@pytest.mark.parametrize(("row", "topology"), ROWS)
def test_it_serves(row: type[ScapyRow], topology: str, tmp_path: Path) -> None:
    with SITES[topology](4) as site:
        with row(site, Variant(), tmp_path) as running:
            serves_and_stops_serving(running)
            assert set(running.pids) <= set(process_ids(site.sfu))
        assert process_ids(site.sfu) == []


@pytest.mark.parametrize(("row", "topology"), ROWS)
def test_everybody_may_send_and_view(row: type[ScapyRow], topology: str, tmp_path: Path) -> None:
    with SITES[topology](3) as site, row(site, Variant(), tmp_path) as running:
        everybody = site.participants(1, 3)
        subscriptions: list[tuple[Stream, list[Participant]]] = []
        for udp_port in (6363, 6364):
            for sender in everybody:
                viewers = [one for one in everybody if one != sender]
                subscriptions.append((Stream(len(subscriptions) + 1, sender, udp_port), viewers))
        running.subscribe_all(subscriptions)
        packets = [(stream, rtp(1000 + stream.number)) for stream, _ in subscriptions]
        expected = Counter[tuple[str, bytes]]()
        for (_, viewers), (_, payload) in zip(subscriptions, packets, strict=True):
            expected += due([payload], viewers)
        copies = exchange(site, packets, expected.total(), interval_s=INTERVAL_S)
        assert came(copies) == expected
        assert all(copy.is_sound and copy.datagram.dst_port in (6363, 6364) for copy in copies)


def test_streams_of_one_sender_have_viewers_of_their_own(tmp_path: Path) -> None:
    with SITES["one_port"](4) as site, Userspace(site, Variant(), tmp_path) as row:
        first = Stream(1, site.participant(1), 5004)
        second = Stream(2, site.participant(1), 5104)
        row.subscribe(first, site.participants(2, 2))
        row.subscribe(second, site.participants(3, 2))
        one, other = rtp(1), rtp(2)
        copies = exchange(site, [(first, one), (second, other)], 4, interval_s=INTERVAL_S)
        expected = due([one], site.participants(2, 2)) + due([other], site.participants(3, 2))
        assert came(copies) == expected


def test_a_group_is_one_for_all_senders(tmp_path: Path) -> None:
    with SITES["port_per_host"](4) as site, UserspacePortPerHost(site, Variant(), tmp_path) as row:
        row.subscribe(Stream(1, site.participant(1)), site.participants(2, 2))
        with pytest.raises(ValueError, match="participant 4 views stream 2 and not stream 1"):
            row.subscribe(Stream(2, site.participant(2)), site.participants(3, 2))


@pytest.mark.parametrize(("row", "topology"), ROWS)
def test_a_process_that_was_killed_is_told(
    row: type[ScapyRow], topology: str, tmp_path: Path
) -> None:
    with SITES[topology](3) as site, row(site, Variant(), tmp_path) as running:
        tells_that_it_was_killed(running)
