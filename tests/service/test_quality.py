"""A receiver changes the quality of a track while both qualities are sent all the time."""

import itertools
import select
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from reprise_conference import Client, MediaSocket

from tests.service.running import LIMIT_S, Running, opened, received, rtp

HIGH, LOW = QUALITIES = ("high", "low")
KBPS = 1_000_000
"""A bitrate so high that the switch polices no packet, however fast the test sends."""
N_CHANGES = 20
IN_FLIGHT = 16
"""How many packets of each quality may be on their way: every socket has room for them."""


def packet(quality: str, number: int) -> bytes:
    return rtp(number % 65_536, f"{quality} {number}".encode())


class Traffic:
    """Sends the packets of both qualities in turn, and reads the packets that the receivers get.

    Two constant receivers stay with one quality each. A packet is sent only when the constant
    receiver of its quality has got the packet that is `IN_FLIGHT` places earlier, so both get every
    packet.
    """

    def __init__(
        self,
        cameras: dict[str, MediaSocket],
        constant: dict[str, MediaSocket],
        changing: MediaSocket,
    ) -> None:
        self._cameras = cameras
        self._constant = constant
        self._changing = changing
        self._n_sent = 0
        """How many packets of each quality were sent."""
        self._n_read = 0
        """How many packets the constant receiver of each quality has got."""
        self.got: list[tuple[str, int]] = []
        """The qualities and numbers of the packets that the changing receiver has got."""

    def step(self) -> None:
        for quality in QUALITIES:
            self._cameras[quality].send(packet(quality, self._n_sent))
        self._n_sent += 1
        if self._n_sent - self._n_read == IN_FLIGHT:
            self._read()
        while select.select([self._changing], [], [], 0)[0]:
            # There may be only an answer to a hello.
            self._take(self._changing.receive(0.001))

    def step_until(self, is_done: Callable[[], bool]) -> None:
        until = time.monotonic() + LIMIT_S
        while not is_done():
            assert time.monotonic() < until, self.got[-3:]
            self.step()

    def step_until_it_is(self, quality: str) -> None:
        """Sends until the changing receiver gets this quality."""
        self.step_until(lambda: bool(self.got) and self.got[-1][0] == quality)

    def end(self) -> None:
        """Reads everything that is still on its way."""
        while self._n_read < self._n_sent:
            self._read()
        until = time.monotonic() + LIMIT_S
        while self.got[-1][1] < self._n_sent - 1:
            assert time.monotonic() < until, self.got[-3:]
            self._take(self._changing.receive(LIMIT_S))

    def _read(self) -> None:
        for quality in QUALITIES:
            expected = packet(quality, self._n_read)
            assert received(self._constant[quality], 1) == [expected]
        self._n_read += 1

    def _take(self, came: bytes | None) -> None:
        if came is not None:
            quality, number = came[12:].decode().split()
            assert came == packet(quality, int(number))
            self.got.append((quality, int(number)))


def place(quality: str, number: int) -> int:
    """How many packets of the track were sent before this one."""
    return number * len(QUALITIES) + QUALITIES.index(quality)


def ask(client: Client, participant: str, quality: str) -> dict[str, Any]:
    """Subscribes to Ann's camera, or changes the quality; returns the receiving leg."""
    there = client.subscribe("c", participant, "ann", "cam", quality=quality, leg="screen")
    leg: dict[str, Any] = there["legs"]["screen"]
    return leg


def test_a_quality_changes_between_two_packets_and_who_does_not_change_gets_every_packet(
    running: Running,
) -> None:
    ann = running.client("ann", max_kbps=KBPS)
    qualities = [{"name": name, "max_kbps": KBPS, "leg": name} for name in QUALITIES]
    sends = ann.publish("c", "ann", "cam", kind="video", qualities=qualities)["legs"]
    bob, cid, dan = (running.client(name) for name in ("bob", "cid", "dan"))
    asked = list(itertools.islice(itertools.cycle(QUALITIES), N_CHANGES + 1))
    with (
        opened(sends[HIGH]) as high,
        opened(sends[LOW]) as low,
        opened(ask(cid, "cid", HIGH)) as constant_high,
        opened(ask(dan, "dan", LOW)) as constant_low,
        opened(ask(bob, "bob", asked[0])) as changing,
        ThreadPoolExecutor(1) as beside,
    ):
        constant = {HIGH: constant_high, LOW: constant_low}
        traffic = Traffic({HIGH: high, LOW: low}, constant, changing)
        traffic.step_until_it_is(asked[0])
        for quality in asked[1:]:
            change = beside.submit(ask, bob, "bob", quality)
            traffic.step_until(change.done)
            change.result()
            traffic.step_until_it_is(quality)
        traffic.end()
    runs = [list(run) for _, run in itertools.groupby(traffic.got, key=lambda it: it[0])]
    assert [run[0][0] for run in runs] == asked
    for run in runs:
        first = run[0][1]
        assert [number for _, number in run] == list(range(first, first + len(run)))
    # Bob gets the old quality of all packets that were sent before some moment, and the new quality
    # of all packets that were sent after it. Between his last packet of the old quality and his
    # first packet of the new quality nothing was sent, or two packets were: one of the new quality
    # before that moment, and one of the old quality after it. This holds however many packets are
    # on their way.
    for old, new in itertools.pairwise(runs):
        assert place(*new[0]) - place(*old[-1]) in (1, 3), (old[-1], new[0])
