"""Audio goes before video where packets wait in the switch."""

import select
import socket
import time
from dataclasses import dataclass

import pytest
from prometheus_client.parser import text_string_to_metric_families
from reprise_conference import Client, MediaSocket

from tests.service.monitored import get
from tests.service.running import LIMIT_S, PlainSocket, Running, free_port, opened, rtp

KBPS = 1_000_000
"""A bitrate so high that the switch polices no packet, however fast the test sends."""
QUEUE_PACKETS = 300
RATE_PPS = 25
"""At this rate a full queue takes 12 seconds to drain; the test sends the audio in milliseconds."""
CHUNK = 100
"""How many packets are sent before the switch has read all of them."""
AUDIO = [b"audio %d" % number for number in range(10)]


class SlowSwitch:
    """The options of a switch with a low egress rate, and the counters that it reports."""

    def __init__(self) -> None:
        metrics = f"127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        self.options = ["--egress-rate", RATE_PPS, "--egress-queue", QUEUE_PACKETS]
        self.options += ["--metrics", metrics]
        self._url = f"http://{metrics}/metrics"

    def _value(self, name: str, **labels: str) -> float:
        status, content = get(self._url)
        assert status == 200
        families = text_string_to_metric_families(content.decode())
        samples = [sample for family in families for sample in family.samples]
        return sum(
            sample.value
            for sample in samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def n_received(self) -> int:
        return int(self._value("reprise_port_received_packets_total"))

    def n_dropped(self) -> int:
        return int(self._value("reprise_drops_total", reason="egress_queue_full"))


@dataclass(frozen=True, slots=True)
class Arrived:
    """The packets that the receiver got, in order of arrival; how many were sent and dropped."""

    packets: list[bytes]
    n_video_sent: int
    n_dropped: int
    sent_audio_s: float
    """How long it took to send the audio, which is sent after the video."""


def fill(switch: SlowSwitch, camera: MediaSocket) -> int:
    """Sends video until there is no room for more in the switch; returns the number of packets."""
    before, n_sent = switch.n_received(), 0
    until = time.monotonic() + LIMIT_S
    while switch.n_dropped() < CHUNK:
        for _ in range(CHUNK):
            camera.send(rtp(n_sent, b"video %d" % n_sent))
            n_sent += 1
        while switch.n_received() < before + n_sent:
            assert time.monotonic() < until, (switch.n_received(), before, n_sent)
            time.sleep(0.01)
    return n_sent


def published(client: Client, participant: str, track: str, kind: str) -> MediaSocket:
    qualities = [{"name": "one", "max_kbps": KBPS, "leg": track}]
    there = client.publish("c", participant, track, kind=kind, qualities=qualities)
    return opened(there["legs"][track])


@pytest.fixture(scope="module")
def arrived(tmp_path_factory: pytest.TempPathFactory) -> Arrived:
    """Fills the queue for video of the only port, then sends audio to the same receiver."""
    switch = SlowSwitch()
    with Running(tmp_path_factory.mktemp("slow"), switch_options=switch.options) as running:
        ann, bob = running.client("ann", max_kbps=KBPS), running.client("bob")
        with (
            published(ann, "ann", "cam", "video") as camera,
            published(ann, "ann", "mic", "audio") as microphone,
        ):
            bob.subscribe("c", "bob", "ann", "cam", leg="all")
            there = bob.subscribe("c", "bob", "ann", "mic", leg="all")
            # Answers to hellos would wait in the port's queues, too.
            with PlainSocket(there["legs"]["all"]) as receiver:
                n_video_sent = fill(switch, camera)
                began = time.monotonic()
                for number, content in enumerate(AUDIO):
                    microphone.send(rtp(number, content))
                sent_audio_s = time.monotonic() - began
                packets: list[bytes] = []
                while count(packets, b"audio") < len(AUDIO):
                    packets += read(receiver)
                # When the audio has come, the switch has read all video that was sent before it.
                n_dropped = switch.n_dropped()
                while len(packets) < len(AUDIO) + n_video_sent - n_dropped:
                    packets += read(receiver)
    return Arrived(packets, n_video_sent, n_dropped, sent_audio_s)


def read(receiver: PlainSocket) -> list[bytes]:
    """Waits for packets; returns their contents."""
    came, _, _ = select.select([receiver], [], [], LIMIT_S)
    assert came
    return [packet[12:] for packet in receiver.received()]


def count(packets: list[bytes], kind: bytes) -> int:
    return sum(packet.startswith(kind) for packet in packets)


def test_audio_overtakes_video_that_waits_and_only_video_is_dropped(arrived: Arrived) -> None:
    packets = arrived.packets
    assert [packet for packet in packets if packet.startswith(b"audio")] == AUDIO
    assert arrived.n_dropped >= CHUNK
    assert count(packets, b"video") == arrived.n_video_sent - arrived.n_dropped
    # All this video was in the switch before the first audio packet was.
    after = packets[packets.index(AUDIO[-1]) + 1 :]
    assert len(after) > QUEUE_PACKETS / 2
