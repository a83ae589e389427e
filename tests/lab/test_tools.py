"""Tests the lab's tools in real namespaces, where a stand-in for the switch can make mistakes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab import capture, netns, traffic
from lab.addresses import SFU_IP, SFU_MAC, ip_of, mac_of
from lab.capture import read_capture, start_capture
from lab.conference import Observation, at_stream_port, observed, read_observation, send_burst
from lab.delays import summarise
from lab.frames import UdpFrame, checksums_are_right, mac_bytes, udp_frame
from lab.netns import SFU_INTERFACE, NamespaceError, Star
from lab.process import REPOSITORY, Child, ChildError, run
from lab.traffic import Burst, read_received, start_receivers
from tests.lab.stand_in import stand_in
from tests.study.processes import alive

VIEWERS = [2, 3, 4]


def run_burst(star: Star, logs: Path, burst: Burst, *mistake: str) -> Observation:
    receivers = at_stream_port(VIEWERS, burst.udp_port)
    with stand_in(star, VIEWERS, logs, *mistake), observed(star, logs, receivers):
        send_burst(star, burst, logs)
    return read_observation(logs)


def frames_of(found: Observation) -> list[bytes]:
    return [record.frame for record in found.records]


@pytest.mark.alone
def test_a_burst_is_sent_at_its_rate_captured_whole_and_received_by_ordinary_sockets(
    star: Star, logs: Path
) -> None:
    burst = Burst(host=1, n_packets=300, rate_bps=4e6)
    found = run_burst(star, logs, burst)
    summary = summarise(found.matched, [ip_of(n) for n in VIEWERS])
    assert (summary.n_packets_in, summary.n_copies_out) == (300, 900)
    assert (summary.n_lost, summary.n_duplicated, summary.n_unmatched) == (0, 0, 0)
    assert summary.duration_s == pytest.approx(burst.duration_s, rel=0.02)
    assert 0 < summary.first_copy_delay.min_s < summary.last_copy_delay.max_s < 1
    sent = [traffic.digest(data) for data in burst.payloads()]
    for viewer in VIEWERS:
        assert [r.payload_digest for r in found.received if r.host == viewer] == sent
    assert {len(frame) for frame in frames_of(found)} == {1400}


@pytest.mark.parametrize(
    ("mistake", "lost", "duplicated"), [("lose", 10, 0), ("double", 0, 10), ("reverse", 0, 0)]
)
def test_the_analysis_sees_what_a_faulty_switch_does(
    star: Star, logs: Path, mistake: str, lost: int, duplicated: int
) -> None:
    burst = Burst(host=1, n_packets=100, rate_bps=8e6)
    found = run_burst(star, logs, burst, f"--{mistake}", "10")
    summary = summarise(found.matched, [ip_of(n) for n in VIEWERS])
    assert (summary.n_lost, summary.n_duplicated) == (lost, duplicated)
    in_order = tuple(ip_of(n) for n in VIEWERS)
    n_wrong = sum(packet.destinations != in_order for packet in found.matched.packets)
    assert n_wrong == 10
    assert len(found.received) == 300 - lost + duplicated


def test_jumbo_frames_pass_and_are_captured_whole(namespaces: None, logs: Path) -> None:
    with Star(4, mtu_bytes=9000) as star:
        burst = Burst(host=1, n_packets=20, rate_bps=40e6, frame_len_bytes=9014)
        found = run_burst(star, logs, burst)
    assert {len(frame) for frame in frames_of(found)} == {9014}
    assert len(found.received) == 60


def test_a_sender_leaves_its_checksum_unfinished_unless_offload_is_off(
    star: Star, logs: Path
) -> None:
    burst = Burst(host=1, n_packets=5, rate_bps=8e6)
    unfinished = run_burst(star, logs, burst)
    star.host(1).run(["ip", "neighbour", "flush", "dev", netns.HOST_INTERFACE, "nud", "permanent"])
    star.host(1).set_offload(netns.HOST_INTERFACE, on=False)
    finished = run_burst(star, logs, burst)

    def rights(found: Observation) -> set[bool]:
        sent = {packet.arrived.datagram for packet in found.matched.packets}
        to_sfu = [frame for frame in frames_of(found) if frame[30:34] == bytes([10, 0, 1, 100])]
        assert len(sent) == len(to_sfu) == 5
        return {checksums_are_right(frame) for frame in to_sfu}

    assert rights(unfinished) == {False}
    assert rights(finished) == {True}


def test_the_kernel_counts_and_drops_a_datagram_with_a_wrong_checksum(
    star: Star, logs: Path
) -> None:
    datagram = UdpFrame(SFU_MAC, mac_of(2), SFU_IP, ip_of(2), 5004, 5004, b"h1000001" + b"x" * 50)
    right = udp_frame(datagram)
    wrong = bytearray(right)
    wrong[41] ^= 1
    with start_receivers(
        [(2, star.host(2), 5004)], logs / "received.csv", logs / "receivers.log"
    ) as receivers:
        traffic.inject(star.host(1), bytes(wrong))
        assert star.host(2).udp_counters()["InCsumErrors"] == 1
        traffic.inject(star.host(1), right)
        receivers.finish(10.0)
    assert len(read_received(logs / "received.csv")) == 1
    assert star.host(2).udp_counters()["InCsumErrors"] == 1


def test_the_link_of_the_sfu_carries_nothing_that_the_lab_did_not_send(
    star: Star, logs: Path
) -> None:
    with start_capture(star.bridge, logs / "sfu.pcap", logs / "capture.log") as capturing:
        # The bridge also knows hosts that have never sent, so it does not flood frames for them.
        experimental = bytes.fromhex("88b5")
        traffic.inject(
            star.host(1), mac_bytes(mac_of(5)) + mac_bytes(mac_of(1)) + experimental + bytes(46)
        )
        capturing.finish(10.0)
    assert read_capture(logs / "sfu.pcap") == []
    addresses = star.sfu.run(["ip", "address", "show", "dev", SFU_INTERFACE])
    assert "inet" not in addresses


def test_a_capture_that_lost_frames_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "lossy.pcap"
    file.write_bytes(b"")
    (tmp_path / "lossy.statistics.json").write_text('{"n_captured": 10, "n_dropped": 3}')
    with pytest.raises(capture.CaptureError, match="lost 3 frames"):
        read_capture(file)


def test_two_stars_at_once_do_not_meet_and_both_are_removed(namespaces: None) -> None:
    with Star(2) as one, Star(2) as other:
        names = {namespace.name for star in (one, other) for namespace in star.namespaces}
        assert len(names) == 8
        assert all((netns.NAMESPACES / name).exists() for name in names)
    assert not any((netns.NAMESPACES / name).exists() for name in names)


def test_a_star_that_cannot_be_completed_leaves_nothing(
    namespaces: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    star = Star(3)
    links = iter([None, None])

    def fail_at_third(*_: object) -> None:
        if next(links, "third") == "third":
            raise KeyboardInterrupt

    monkeypatch.setattr(star, "_link", fail_at_third)
    monkeypatch.setattr(netns, "ip_of", lambda _: "192.0.2.1")
    with pytest.raises((KeyboardInterrupt, ChildError)), star:
        pass
    assert not any(namespace.path.exists() for namespace in star.namespaces)


def test_a_star_ends_the_processes_inside_it(namespaces: None, logs: Path) -> None:
    with Star(1) as star:
        child = Child(star.host(1).command(["sleep", "1000"]), logs / "sleep.log")
        while netns.process_ids(star.host(1)) != [child.pid]:
            assert child.exit_code is None
    assert child.stop() == -signal.SIGTERM


@pytest.fixture
def killed_lab(namespaces: None) -> str:
    program = (
        "import signal, sys; from pathlib import Path; from lab.netns import Star, process_ids\n"
        "with Star(1) as star:\n"
        "    child = star.host(1).start(['sleep', '1000'], Path(sys.argv[1]))\n"
        "    while process_ids(star.host(1)) != [child.pid]: pass\n"
        "    print(star.name, child.pid, flush=True); signal.pause()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, os.devnull],
        stdout=subprocess.PIPE,
        text=True,
        cwd=REPOSITORY,
    ) as lab:
        assert lab.stdout is not None
        line = lab.stdout.readline()
        lab.kill()
    return line


def test_what_a_killed_lab_leaves_is_removed_by_the_next(killed_lab: str) -> None:
    name, pid = killed_lab.split()
    with Star(1):
        assert name not in run(["ip", "netns", "list"])
    assert not alive(int(pid))


def test_a_child_that_fails_is_reported_with_its_log(logs: Path) -> None:
    with (
        Child(["sh", "-c", "echo what went wrong >&2; exit 3"], logs / "it.log") as child,
        pytest.raises(ChildError, match=r"(?s)exit code 3.*what went wrong"),
    ):
        child.wait_for_line("ready:", 120.0)


def test_impossible_stars_are_refused_before_anything_is_made() -> None:
    with pytest.raises(ValueError, match="1 to 99 hosts, not 100"):
        Star(100)
    with pytest.raises(ValueError, match="576 to 9000 bytes, not 9001"):
        Star(1, mtu_bytes=9001)


def test_without_root_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(NamespaceError, match="scripts/in-namespaces"):
        netns.require_namespaces()
