"""A socket that sends nothing is signed out; a socket that sends media or hellos is not."""

import itertools
import time
from pathlib import Path

from reprise_conference import MediaSocket
from reprise_conference.events import Events

from tests.service.monitored import get
from tests.service.running import (
    LIMIT_S,
    PlainSocket,
    Running,
    opened,
    publish,
    received,
    rtp,
    subscribe,
)

SILENCE_S = 5
"""The shortest value that the service's configuration may have for `silence_s`."""
BEAT_S = 0.02


class Room:
    """Dan, who only sends media, Eve, who only sends hellos and receives, and the events."""

    def __init__(self, dan: PlainSocket, eve: MediaSocket, events: Events) -> None:
        self._dan = dan
        self._eve = eve
        self._events = events
        self._numbers = itertools.count()

    def forward(self) -> bytes:
        """Lets Dan send a packet; checks that it is the next packet that Eve gets."""
        packet = rtp(next(self._numbers) % 65_536, b"of dan")
        self._dan.send(packet)
        self.eve_gets(packet)
        return packet

    def eve_gets(self, packet: bytes) -> None:
        assert received(self._eve, 1) == [packet]

    def signed_out(self, n: int, reading: PlainSocket) -> set[tuple[str, str]]:
        """Lets Dan send until `n` sockets are signed out; returns their participants and legs.

        Also reads the socket `reading`, so that its buffer does not overflow.
        """
        out: list[tuple[str, str]] = []
        until = time.monotonic() + LIMIT_S
        while len(out) < n:
            assert time.monotonic() < until, out
            self.forward()
            reading.received()
            event = self._events.receive(BEAT_S)
            if event is not None and event["event"] == "signed_out":
                out.append((event["participant"], event["leg"]))
        return set(out)


def wait_for_switch(running: Running) -> None:
    """Waits until the switch has all changes of which there were events."""
    # The service answers this change when the switch has the change and all changes before it, or
    # after a second at the latest. If the switch does not have them by then, the service is not
    # ready.
    for muted in (True, False):
        running.administrator.mute("c", "dan", "cam", muted=muted)
    until = time.monotonic() + LIMIT_S
    while get(f"{running.url}/readyz")[0] != 200:
        assert time.monotonic() < until, running.service.said
        time.sleep(BEAT_S)


def signed_in(running: Running) -> set[str]:
    participants = running.administrator.conference("c")["participants"]
    return {
        name
        for name, participant in participants.items()
        if any(leg.get("signed_in_from") for leg in participant["legs"].values())
    }


def test_only_a_socket_that_sends_neither_media_nor_hellos_is_signed_out(tmp_path: Path) -> None:
    with Running(tmp_path, top=f"silence_s = {SILENCE_S}\ngone_s = 0") as running:
        ann, bob, dan, eve = (running.client(name) for name in ("ann", "bob", "dan", "eve"))
        of_ann, of_dan = publish(ann, "ann"), publish(dan, "dan")
        of_bob = subscribe(bob, "bob", "dan")
        eve.subscribe("c", "eve", "ann", "cam", leg="screen")
        of_eve = eve.subscribe("c", "eve", "dan", "cam", leg="screen")["legs"]["screen"]
        with (
            PlainSocket(of_dan) as sends_media,
            opened(of_eve) as says_hello,
            Events(running.administrator, "c") as events,
        ):
            room = Room(sends_media, says_hello, events)
            # In the second round, Dan's last hello is older than the limit, so only his media
            # counts.
            for _ in range(2):
                with PlainSocket(of_ann) as sender, PlainSocket(of_bob) as receiver:
                    packets = [room.forward() for _ in range(2)]
                    # When Eve has the second packet, the first one has been copied to Bob, too.
                    assert receiver.received()[:1] == packets[:1]
                    began = time.monotonic()
                    sender.send(rtp(0, b"of ann"))
                    room.eve_gets(rtp(0, b"of ann"))
                    # Bob publishes nothing, so nobody gets this packet, but Bob's socket is not
                    # silent.
                    receiver.send(rtp(0, b"of bob"))
                    out = room.signed_out(2, receiver)
                    assert out == {("ann", "cam"), ("bob", "of-dan")}
                    # The service counts in whole milliseconds.
                    assert time.monotonic() - began > SILENCE_S - 0.001
                    wait_for_switch(running)
                    assert signed_in(running) == {"dan", "eve"}
                    receiver.received()
                    sender.send(rtp(1, b"of ann"))
                    # The switch serves packets in order: Eve would get Ann's packet first.
                    for _ in range(2):
                        room.forward()
                    assert receiver.received() == []
