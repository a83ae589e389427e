"""Tests pktswitch's rows (SFUs) with real packets, for each of its ways to the network."""

import os
import random
import signal
import struct
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from lab import peers
from lab.frames import (
    ETHERNET_LEN_BYTES,
    HEADERS_LEN_BYTES,
    IPV4_LEN_BYTES,
    checksums_are_right,
    internet_checksum,
    udp_frame,
)
from lab.netns import process_ids
from lab.process import ChildError, run
from lab.rows.pktswitch import Pktswitch, PktswitchBypass, PktswitchSockets
from lab.rows.pktswitch_messages import Message, Type
from lab.rows.pktswitch_participants import CONTROL_PORT, RETRY_S, Endpoint
from lab.rows.row import Variant
from lab.sites import (
    LOAD_CPU,
    SFU_IP,
    SFU_UDP_PORT,
    VIEWER_UDP_PORT,
    OnePort,
    PortPerHost,
    Site,
    Stream,
    on_cpu,
)
from tests.rows.exchange import (
    came,
    datagram,
    due,
    exchange,
    packet_of,
    rtp,
    serves_and_stops_serving,
    serves_at_once,
    to_all_others,
)
from tests.rows.pktswitch_wire import after, frames_after, message_frame

ROWS: tuple[type[Pktswitch], ...] = (PktswitchSockets, PktswitchBypass)
EVERY_VARIANT = [(row, variant) for row in ROWS for variant in row.variants]
SLEEPING = [(row, variant) for row, variant in EVERY_VARIANT if variant.wait == "sleep"]
BYPASS = [variant for _, variant in SLEEPING if variant.port in {"afpacket", "afxdp"}]
FLOOD_VIEWERS, FLOOD_PPS, FLOOD_S = 200, 15000, 60.0
FRAME_DROPS = ("no_stream", "too_long", "not_ours", "malformed", "fragments", "ip_options")


Start = Callable[[Site], Pktswitch]


@pytest.fixture(params=SLEEPING, ids=lambda one: f"{one[0].name}-{one[1]}")
def sleeping(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """A function that starts a row. A test runs once for each row and variant that sleeps."""
    row, variant = request.param
    return lambda site: row(site, variant, tmp_path)


def said(what: object) -> str:
    return what.name if isinstance(what, type) and issubclass(what, Pktswitch) else str(what)


@pytest.mark.parametrize(("row", "variant"), EVERY_VARIANT, ids=said)
def test_it_serves(row: type[Pktswitch], variant: Variant, tmp_path: Path) -> None:
    with OnePort(4) as site, row(site, variant, tmp_path) as running:
        serves_and_stops_serving(running)
        running.stop()
        counted = running.final_statistics()
    assert (counted["packets"], counted["copies"], counted["copies_refused"]) == (15, 30, 0)
    assert (counted["subscribed"], counted["unsubscribed"], counted["subscriptions"]) == (3, 2, 1)


def test_it_serves_hosts_on_ports_of_their_own(sleeping: Start) -> None:
    with PortPerHost(4) as site, sleeping(site) as running:
        serves_and_stops_serving(running)


def test_payloads_of_every_length_are_untouched(sleeping: Start) -> None:
    rng = random.Random(3)
    looks_like_a_message = Message(Type.UNSUBSCRIBE, 1).encode()
    payloads = [rng.randbytes(length) for length in (1, 2, 3, 17, 18, 19, 1400, 1471, 1472)]
    payloads += [looks_like_a_message, bytes(100), b"\xff" * 101]
    with OnePort(4) as site, sleeping(site) as running:
        stream = Stream(1, site.participant(1))
        viewers = site.participants(2, 3)
        running.subscribe(stream, viewers)
        copies = exchange(site, [(stream, one) for one in payloads], len(payloads) * len(viewers))
        assert came(copies) == due(payloads, viewers)
        assert all(copy.is_sound for copy in copies)
        empty = exchange(site, [(stream, b"")], len(viewers))
        assert [copy.datagram.payload for copy in empty] == [b""] * len(viewers)


def test_ten_who_all_see_each_other(sleeping: Start) -> None:
    with PortPerHost(10) as site, sleeping(site) as running:
        serves_at_once(running, to_all_others(site, SFU_UDP_PORT))


@pytest.mark.alone
def test_who_subscribes_gets_an_answer_though_packets_never_run_dry(sleeping: Start) -> None:
    with OnePort(FLOOD_VIEWERS + 2) as site, sleeping(site) as running:
        stream = Stream(1, site.participant(1))
        viewers = site.participants(2, FLOOD_VIEWERS)
        running.subscribe(stream, viewers)
        flood = on_cpu(LOAD_CPU, flood_command(site))
        with site.hosts.start(flood, running.folder / "flood.log") as flooding:
            flooding.wait_for_line('{"sent"', FLOOD_S)
            running.subscribe(stream, [*viewers, site.participant(FLOOD_VIEWERS + 2)])
            running.subscribe(stream, viewers[:1])
            assert running.statistics()["receive_lost"] > 0, "no flood"
            assert flooding.exit_code is None


def flood_command(site: OnePort) -> list[str]:
    """Returns the command of a load that requires more copies than a processor can make.

    The load reports every second.
    """
    link, sender = site.links[0], site.participant(1)
    return [
        str(peers.program("load")),
        *("--interface", link.host_interface, "--frame-len", "1400"),
        *("--sfu", f"{SFU_IP}:{SFU_UDP_PORT}", "--sfu-mac", link.sfu_mac),
        *("--host", f"{sender.ip}:{SFU_UDP_PORT}", "--host-mac", link.host_mac),
        *("--first-viewer", f"{site.participant(2).ip}:{VIEWER_UDP_PORT}"),
        *("--viewers", str(FLOOD_VIEWERS), "--rate", str(FLOOD_PPS), "--seconds", str(FLOOD_S)),
        *("--watch", "/dev/null"),
    ]


def with_ipv4(frame: bytes, at: int, value: int, *, sum_is_right: bool = True) -> bytes:
    changed = bytearray(frame)
    changed[ETHERNET_LEN_BYTES + at] = value
    if sum_is_right:
        header = slice(ETHERNET_LEN_BYTES, ETHERNET_LEN_BYTES + IPV4_LEN_BYTES)
        changed[ETHERNET_LEN_BYTES + 10 : ETHERNET_LEN_BYTES + 12] = bytes(2)
        changed[ETHERNET_LEN_BYTES + 10 : ETHERNET_LEN_BYTES + 12] = struct.pack(
            "!H", internet_checksum(bytes(changed[header]))
        )
    return bytes(changed)


def with_udp_len(frame: bytes, length: int) -> bytes:
    changed = bytearray(frame)
    changed[38:40] = struct.pack("!H", length)
    return bytes(changed)


@pytest.mark.parametrize("variant", BYPASS, ids=str)
def test_frames_that_a_socket_would_not_get_are_counted_and_go_nowhere(
    variant: Variant, tmp_path: Path
) -> None:
    with OnePort(3) as site, PktswitchBypass(site, variant, tmp_path) as running:
        stream = Stream(1, site.participant(1))
        running.subscribe(stream, site.participants(2, 1))
        good = packet_of(stream, site, rtp(1))
        own = datagram(site, site.participant(1), 5004, 5004, rtp(1))
        message = bytearray(
            message_frame(site, Endpoint(site.participant(3), 6000), Message(Type.SUBSCRIBE, 1))
        )
        message[-1] ^= 1
        wrong = {
            "not_ours": [
                udp_frame(replace(own, eth_dst="02:00:00:02:00:07")),
                udp_frame(replace(own, eth_dst="ff:ff:ff:ff:ff:ff")),
                udp_frame(replace(own, dst_ip="10.0.0.9")),
                with_ipv4(good, 9, 6),
                good[:12] + b"\x86\xdd" + good[14:],
                good[:20],
            ],
            "ip_options": [with_ipv4(good, 0, 0x46)],
            "fragments": [with_ipv4(good, 6, 0x20), with_ipv4(good, 7, 0x01)],
            "malformed": [
                with_ipv4(good, 0, 0x55),
                with_ipv4(good, 0, 0x44),
                with_ipv4(good, 8, 63, sum_is_right=False),
                with_ipv4(good, 2, 0xFF),
                with_ipv4(with_ipv4(good, 2, 0), 3, 27),
                with_udp_len(good, 7),
                with_udp_len(good, len(good)),
                udp_frame(replace(own, src_ip="224.0.0.1")),
                udp_frame(replace(own, src_ip="127.0.0.1")),
                udp_frame(replace(own, src_ip="10.0.0.1")),
                udp_frame(replace(own, eth_src="03:00:00:01:00:01")),
                bytes(message),
            ],
            "no_stream": [
                udp_frame(replace(own, src_port=5005)),
                udp_frame(replace(own, dst_port=5005)),
                udp_frame(replace(own, src_ip="10.1.0.3")),
            ],
        }
        before = running.statistics()
        assert after(site, [frame for frames in wrong.values() for frame in frames]) == []
        counted = running.statistics()
        grown = {name: counted[name] - before[name] for name in FRAME_DROPS}
        assert grown == {name: len(wrong.get(name, [])) for name in FRAME_DROPS}
        assert (counted["packets"], counted["copies"]) == (0, 0)


@pytest.mark.parametrize("variant", BYPASS, ids=str)
def test_padding_is_no_payload_and_checksums_stay_what_they_were(
    variant: Variant, tmp_path: Path
) -> None:
    with OnePort(2) as site, PktswitchBypass(site, variant, tmp_path) as running:
        stream = Stream(1, site.participant(1))
        running.subscribe(stream, site.participants(2, 1))
        frame = packet_of(stream, site, b"four")
        unsummed = frame[:40] + b"\0\0" + frame[HEADERS_LEN_BYTES:]
        corrupted = frame[:-1] + b"R"
        padded = frame.ljust(60, b"\xee")
        copies = frames_after(site, [padded, unsummed, corrupted])
    assert [copy[HEADERS_LEN_BYTES:] for copy in copies] == [b"four", b"four", b"fouR"]
    assert copies[1][40:42] == b"\0\0"
    # The copies of a corrupted packet have wrong checksums, too, so that viewers drop them.
    assert [checksums_are_right(copy) for copy in copies] == [True, False, False]
    assert all(internet_checksum(copy[14:34]) == 0 for copy in copies)


def test_a_viewer_whose_link_is_down_holds_up_nobody(sleeping: Start) -> None:
    with PortPerHost(4) as site, sleeping(site) as running:
        stream, viewers = Stream(1, site.participant(1)), site.participants(2, 3)
        running.subscribe(stream, viewers)
        link = ["ip", "-n", site.sfu.name, "link", "set", site.links[2].sfu_interface]
        run([*link, "down"])
        payloads = [rtp(number) for number in range(20)]
        sent = [(stream, one) for one in payloads]
        others = due(payloads, [viewers[0], viewers[2]])
        assert came(exchange(site, sent, others.total())) == others
        assert running.statistics()["packets"] == len(payloads)
        run([*link, "up"])
        if isinstance(running, PktswitchSockets):
            return  # the kernel forgot its routes when the link went down
        # Frames that AF_XDP was given while the link was down may come, too.
        copies = came(exchange(site, [(stream, b"again")], len(viewers)))
        assert not due([b"again"], viewers) - copies


def test_messages_that_are_repeated_since_it_stands_still_do_no_harm(sleeping: Start) -> None:
    with OnePort(6) as site, sleeping(site) as running:
        stream, viewers = Stream(1, site.participant(1)), site.participants(2, 5)
        os.kill(running.pids[0], signal.SIGSTOP)
        asking = threading.Thread(target=running.subscribe, args=(stream, viewers))
        asking.start()
        asking.join(4 * RETRY_S)
        assert asking.is_alive(), "who does not run has answered"
        os.kill(running.pids[0], signal.SIGCONT)
        asking.join()
        copies = exchange(site, [(stream, rtp(1))], len(viewers))
        assert came(copies) == due([rtp(1)], viewers)
        counted = running.statistics()
        assert counted["messages"] > 2 * len(viewers) + 2
        assert (counted["subscribed"], counted["subscriptions"]) == (5, 5)


def test_one_that_was_killed_is_told_of_and_leaves_nothing(sleeping: Start) -> None:
    with OnePort(3) as site:
        stream, viewers = Stream(1, site.participant(1)), site.participants(2, 2)
        killed = sleeping(site)
        with pytest.raises(ChildError, match="is not started"):
            killed.subscribe(stream, viewers)
        with killed:
            os.kill(killed.pids[0], signal.SIGKILL)
            with pytest.raises(ChildError, match="nobody can subscribe: it has ended"):
                killed.subscribe(stream, viewers)
        killed.stop()
        assert process_ids(site.sfu) == []
        with pytest.raises(ChildError, match="ended without saying"):
            killed.final_statistics()
        with sleeping(site) as again:
            again.subscribe(stream, viewers)
            assert came(exchange(site, [(stream, rtp(1))], 2)) == due([rtp(1)], viewers)
            again.subscribe(stream, [])
            assert came(exchange(site, [(stream, rtp(2))], 0)) == due([], [])


def test_one_that_stands_still_is_told_of_and_asked_again(tmp_path: Path) -> None:
    row, variant = SLEEPING[0]
    with OnePort(2) as site, row(site, variant, tmp_path) as running:
        stream, viewers = Stream(1, site.participant(1)), site.participants(2, 1)
        os.kill(running.pids[0], signal.SIGSTOP)
        with pytest.raises(ChildError, match=r"did not answer SUBSCRIBE of 10\.1\.0\.2:6000"):
            running.subscribe(stream, viewers)
        os.kill(running.pids[0], signal.SIGCONT)
        # This call repeats the subscription that got no answer.
        running.subscribe(stream, viewers)
        assert came(exchange(site, [(stream, rtp(1))], 1)) == due([rtp(1)], viewers)


def test_a_refused_subscription_names_who_why_and_what_to_do(tmp_path: Path) -> None:
    row, variant = SLEEPING[0]
    with OnePort(3) as site, row(site, variant, tmp_path) as running:
        viewers = site.participants(2, 2)
        low = Stream(1, site.participant(1), udp_port=1000)
        with pytest.raises(
            ChildError,
            match=r"refused SUBSCRIBE to 10\.1\.0\.1:1000 at port 1000 of 10\.1\.0\.[23]",
        ) as refused:
            running.subscribe(low, viewers)
        assert "from 1024 on" in str(refused.value)
        # A correct subscription still works.
        good = Stream(1, site.participant(1))
        running.subscribe(good, viewers)
        assert came(exchange(site, [(good, rtp(1))], 2)) == due([rtp(1)], viewers)


def test_a_stream_that_moves_to_another_port_leaves_the_old_one(tmp_path: Path) -> None:
    row, variant = SLEEPING[0]
    with OnePort(4) as site, row(site, variant, tmp_path) as running:
        viewers = site.participants(2, 3)
        old, new = (Stream(1, site.participant(1), udp_port=port) for port in (5004, 5006))
        for stream in (old, new):
            running.subscribe(stream, viewers)
        copies = exchange(site, [(old, b"old"), (new, b"new")], len(viewers))
        assert came(copies) == due([b"new"], viewers)
        assert running.statistics()["subscriptions"] == len(viewers)


def test_a_second_one_on_the_same_address_says_so(tmp_path: Path) -> None:
    with OnePort(2) as site, PktswitchSockets(site, SLEEPING[0][1], tmp_path) as running:
        argv = [str(peers.program("pktswitch")), "--io", "udp", "--wait", "sleep"]
        with pytest.raises(ChildError, match=r"bind a UDP socket.*Address already in use"):
            site.sfu.run([*argv, "--sfu", f"{SFU_IP}:{CONTROL_PORT}"])
        assert running.statistics()["messages"] == 2


@pytest.mark.parametrize(
    ("wrong", "code", "what"),
    [
        (["--io", "netmap"], 2, "--io is none of those known"),
        (["--wait", "doze"], 2, "--wait is neither spin nor sleep"),
        (["--sfu", "10.0.0.1"], 2, 'expected ADDRESS:PORT, found "10.0.0.1"'),
        (["--link", "lo"], 2, "--link is for afpacket and afxdp alone"),
        (["--io", "afxdp"], 2, "afpacket and afxdp need --link"),
        (["--link", "nothere"], 1, 'interface "nothere" of --link: No such device'),
        (["more"], 2, "an argument that belongs to no option"),
        (["--unknown"], 2, "an option is unknown"),
    ],
)
def test_a_wrong_command_line_is_told_what_is_wrong(wrong: list[str], code: int, what: str) -> None:
    peers.build()
    right = ["--io", "udp", "--wait", "sleep", "--sfu", "127.0.0.1:5003"]
    argv = [str(peers.program("pktswitch")), *right, *wrong]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert what in done.stderr
