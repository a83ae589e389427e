"""Both SFU programs serve one presenter's stream to viewers that are ordinary UDP sockets."""

import json
from collections import Counter
from pathlib import Path

import pytest

from lab import traffic, video
from lab.addresses import PRESENTER, SFU_IP, SFU_MAC, SFU_UDP_PORT, ip_of, mac_of
from lab.conference import (
    FIRST_VIEWER,
    GROUP,
    at_stream_port,
    conference,
    observed,
    read_observation,
    send_burst,
)
from lab.delays import summarise
from lab.frames import UdpFrame, checksums_are_right, parse_udp, udp_frame
from lab.netns import HOST_INTERFACE
from lab.switch import RECIRCULATION_PROGRAM, REPLICATION_PROGRAM
from lab.traffic import Burst, digest, payload
from tests.e2e.conftest import Sfu, verdicts_of

N_VIEWERS = 11
N_PACKETS = 300
RATE_BPS = 4e6


def corrupt_frame_to(viewer: int) -> bytes:
    """A frame directly to a viewer, not through the SFU, with one wrong bit in its UDP checksum."""
    data = payload(PRESENTER, 0, traffic.FRAME_LEN_BYTES)
    datagram = UdpFrame(
        mac_of(PRESENTER), mac_of(viewer), ip_of(PRESENTER), ip_of(viewer), 5004, 5004, data
    )
    frame = bytearray(udp_frame(datagram))
    frame[41] ^= 1
    return bytes(frame)


def test_eleven_viewers_get_each_of_300_packets_at_4_mbit_per_second_exactly_once(
    sfu: Sfu, logs: Path
) -> None:
    burst = Burst(PRESENTER, N_PACKETS, RATE_BPS)
    with conference(sfu.program, logs, 1 + N_VIEWERS, is_in_kernel=sfu.is_in_kernel) as running:
        running.grow(N_VIEWERS)
        assert running.viewers == list(range(2, 13))
        star = running.star
        with observed(star, logs / "run", at_stream_port(running.viewers)):
            # This frame shows that the viewers' kernels do verify checksums.
            before = star.host(FIRST_VIEWER).udp_counters()
            traffic.inject(star.host(PRESENTER), corrupt_frame_to(FIRST_VIEWER))
            after = star.host(FIRST_VIEWER).udp_counters()
            assert after["InCsumErrors"] == before["InCsumErrors"] + 1
            assert after["InDatagrams"] == before["InDatagrams"]
            send_burst(star, burst, logs / "run")
        seen = read_observation(logs / "run")
        errors = [star.host(viewer).udp_counters()["InCsumErrors"] for viewer in running.viewers]
    viewer_ips = [ip_of(viewer) for viewer in running.viewers]

    summary = summarise(seen.matched, viewer_ips)
    assert summary.n_packets_in == N_PACKETS
    assert summary.n_copies_out == N_VIEWERS * N_PACKETS
    assert (summary.n_lost, summary.n_duplicated) == (0, 0)
    assert (summary.n_out_of_order, summary.n_unmatched) == (0, 0)
    for packet in seen.matched.packets:
        assert packet.destinations == tuple(viewer_ips)

    # The sender leaves checksums to the card (offload). The copies' checksums are right
    # nevertheless.
    copies = [record.frame for record in seen.records if is_copy(record.frame)]
    assert len(copies) == N_VIEWERS * N_PACKETS
    assert all(checksums_are_right(frame) for frame in copies)

    due = Counter((viewer, digest(data)) for viewer in running.viewers for data in burst.payloads())
    assert Counter((one.host, one.payload_digest) for one in seen.received) == due
    assert errors == [1] + [0] * (N_VIEWERS - 1)


def is_copy(frame: bytes) -> bool:
    datagram = parse_udp(frame)
    return datagram is not None and datagram.dst_ip != SFU_IP


def test_copies_carry_the_addresses_that_the_program_promises(program: Path, logs: Path) -> None:
    with conference(program, logs, 3) as running:
        running.grow(2)
        burst = Burst(PRESENTER, 10, RATE_BPS)
        with observed(running.star, logs / "run", at_stream_port(running.viewers)):
            send_burst(running.star, burst, logs / "run")
        seen = read_observation(logs / "run")
    # With recirculation copies keep the presenter's address, with replication they have the SFU's.
    source = {RECIRCULATION_PROGRAM: ip_of(PRESENTER), REPLICATION_PROGRAM: SFU_IP}[program]
    copies = [copy.datagram for packet in seen.matched.packets for copy in packet.copies]
    assert len(copies) == 20
    assert {(one.src_ip, one.src_port, one.dst_port) for one in copies} == {
        (source, SFU_UDP_PORT, SFU_UDP_PORT)
    }
    assert {(one.eth_src, one.eth_dst) for one in copies} == {(SFU_MAC, mac_of(n)) for n in (2, 3)}
    assert {(one.src_ip, one.src_port) for one in seen.received} == {(source, SFU_UDP_PORT)}


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> video.Video:
    made = video.make_video(6, tmp_path_factory.mktemp("clip"))
    assert len(made.frame_hashes) == 180
    return made


def test_three_viewers_decode_every_frame_of_a_real_video_bit_for_bit(
    sfu: Sfu, clip: video.Video, logs: Path
) -> None:
    with conference(sfu.program, logs, 4, is_in_kernel=sfu.is_in_kernel) as running:
        running.grow(3)
        viewers = [(viewer, running.star.host(viewer)) for viewer in running.viewers]
        watched = video.watch(clip, running.star.host(PRESENTER), viewers, logs)
    assert [one.viewer for one in watched] == [2, 3, 4]
    for one in watched:
        assert one.frame_hashes == clip.frame_hashes


def test_a_host_resolves_and_pings_the_sfu(program: Path, logs: Path) -> None:
    with conference(program, logs, 2) as running:
        host = running.star.host(2)
        said = host.run(["ping", "-c", "3", "-i", "0.2", "-W", "2", SFU_IP])
        assert "3 received, 0% packet loss" in said
        said = host.run(["ping", "-c", "1", "-s", "1400", "-W", "2", SFU_IP])
        assert "1 received, 0% packet loss" in said
        neighbour = host.run(["ip", "neighbour", "show", SFU_IP, "dev", HOST_INTERFACE])
        assert f"lladdr {SFU_MAC}" in neighbour


def test_a_sender_that_presents_nothing_is_not_forwarded_but_counted(
    program: Path, logs: Path
) -> None:
    with conference(program, logs, 3) as running:
        running.grow(1)
        burst = Burst(3, 10, RATE_BPS)
        with observed(running.star, logs / "run", at_stream_port(running.viewers)):
            send_burst(running.star, burst, logs / "run")
        seen = read_observation(logs / "run")
        shown = running.controller.show_json()
    assert len(seen.matched.packets) == 10
    assert seen.received == []
    assert all(not packet.copies for packet in seen.matched.packets)
    assert verdicts_of(shown)["drop_unknown_sender"] == 10
    assert "serve" not in verdicts_of(shown)


def test_the_controller_shows_what_the_link_saw(sfu: Sfu, logs: Path) -> None:
    with conference(sfu.program, logs, 4, is_in_kernel=sfu.is_in_kernel) as running:
        running.grow(3)
        with observed(running.star, logs / "run", at_stream_port(running.viewers)):
            send_burst(running.star, Burst(PRESENTER, 50, RATE_BPS), logs / "run")
        shown = running.controller.show_json()
    (group,) = shown["groups"]
    assert (group["group"], group["ip"]) == (GROUP, ip_of(PRESENTER))
    assert (group["packets"], group["bytes"]) == (50, 50 * traffic.FRAME_LEN_BYTES)
    for viewer, count in zip(running.viewers, group["viewers"], strict=True):
        assert (count["ip"], count["mac"]) == (ip_of(viewer), mac_of(viewer))
        assert (count["packets"], count["bytes"]) == (50, 50 * traffic.FRAME_LEN_BYTES)
    assert verdicts_of(shown)["serve"] == 50
    (port,) = shown["ports"]
    assert (port["rx_dropped"], port["tx_dropped"]) == (0, 0)


def test_a_file_brings_the_switch_to_its_state_and_a_second_time_changes_nothing(
    program: Path, logs: Path
) -> None:
    file = logs / "conference.yaml"
    viewers = [4, 2, 3]
    file.write_text(
        f"sfu: {{port: 1, ip: {SFU_IP}, mac: '{SFU_MAC}'}}\n"
        "groups:\n"
        f"  - group: 7\n    ip: {ip_of(PRESENTER)}\n    viewers:\n"
        + "".join(f"      - {{ip: {ip_of(viewer)}}}\n" for viewer in viewers)
    )
    with conference(program, logs, 4) as running:
        running.controller.delete_group(GROUP)
        running.controller.reprise("apply", str(file))
        state = running.controller.show_json()["groups"]
        again = json.loads(running.controller.reprise("apply", "--json", str(file)))
        assert (again["changed"], again["changes"]) == (False, [])
        assert running.controller.show_json()["groups"] == state
        with observed(running.star, logs / "run", at_stream_port(viewers)):
            send_burst(running.star, Burst(PRESENTER, 20, RATE_BPS), logs / "run")
        seen = read_observation(logs / "run")
    assert [packet.destinations for packet in seen.matched.packets] == [
        tuple(map(ip_of, viewers))
    ] * 20


def test_replication_serves_two_streams_of_a_presenter_and_viewers_at_ports_of_their_own(
    namespaces: None, logs: Path
) -> None:
    with conference(REPLICATION_PROGRAM, logs, 3) as running:
        controller = running.controller
        controller.add_group(2, PRESENTER, "--udp-port", "6000")
        controller.add_viewer(GROUP, 2)
        controller.add_viewer(2, 2, "--udp-port", "7000")
        controller.add_viewer(2, 3)
        first = Burst(PRESENTER, 10, RATE_BPS)
        second = Burst(PRESENTER, 10, RATE_BPS, udp_port=6000, first_sequence=101)
        sockets = [(2, SFU_UDP_PORT), (2, 7000), (3, 6000)]
        with observed(running.star, logs / "run", sockets):
            send_burst(running.star, first, logs / "run")
            send_burst(running.star, second, logs / "run")
        seen = read_observation(logs / "run")
    arrived = Counter((one.host, one.udp_port, one.src_port) for one in seen.received)
    assert arrived == {(2, 5004, 5004): 10, (2, 7000, 6000): 10, (3, 6000, 6000): 10}


def test_a_removed_viewer_gets_nothing_more(sfu: Sfu, logs: Path) -> None:
    with conference(sfu.program, logs, 4, is_in_kernel=sfu.is_in_kernel) as running:
        running.grow(3)
        running.controller.remove_viewer(GROUP, 3)
        with observed(running.star, logs / "run", at_stream_port([2, 3, 4])):
            send_burst(running.star, Burst(PRESENTER, 20, RATE_BPS), logs / "run")
        seen = read_observation(logs / "run")
    assert Counter(one.host for one in seen.received) == {2: 20, 4: 20}
