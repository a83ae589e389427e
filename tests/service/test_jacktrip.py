"""Two JackTrip clients play to each other through the switch; each sample is compared."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from reprise_conference import MediaSocket

from tests.needs import need
from tests.service.jack_sounds import BLOCK, sound
from tests.service.running import LIMIT_S, Process, Running, free_port, opened

NAMES = ("ann", "bob")
N_BLOCKS = 1_500
"""How many blocks each must hear: those of four seconds."""
JACKTRIP_BITS = 24
"""With 16 JackTrip adds noise (dither), with 32 its version 1.7 plays silence."""
JACKTRIP_QUEUE = 16
"""Packets that JackTrip waits for late ones; on a busy machine some are."""


def lacks() -> str:
    missing = [name for name in ("jackd", "jacktrip") if shutil.which(name) is None]
    return f"{' and '.join(missing)}: run scripts/install-packages jacktrip" if missing else ""


class Wire:
    """Between a JackTrip, which has a port of its own, and a leg: passes datagrams as they are."""

    def __init__(self, media: MediaSocket) -> None:
        self._media = media
        self.near = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.near.bind(("127.0.0.1", 0))
        self.near.settimeout(0.2)
        self.port: int = self.near.getsockname()[1]
        self.jacktrip_port = free_port(socket.SOCK_DGRAM)
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._out), threading.Thread(target=self._back)]
        for thread in self._threads:
            thread.start()

    def _out(self) -> None:
        while not self._ended.is_set():
            with contextlib.suppress(TimeoutError):
                self._media.send(self.near.recv(65_536))

    def _back(self) -> None:
        while not self._ended.is_set():
            packet = self._media.receive(0.2)
            if packet is not None:
                # While JackTrip is away, what was sent to it comes back as an error.
                with contextlib.suppress(ConnectionRefusedError):
                    self.near.sendto(packet, ("127.0.0.1", self.jacktrip_port))

    def close(self) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self.near.close()
        self._media.close()


@contextlib.contextmanager
def wires(running: Running) -> Iterator[dict[str, Wire]]:
    """Ann and Bob in a conference, each with a track of datagrams, which the other receives."""
    clients = {name: running.client(name) for name in NAMES}
    quality = {"name": "one", "max_kbps": 10_000, "leg": "socket"}
    for name, client in clients.items():
        client.publish("c", name, "sound", kind="audio", transport="datagram", qualities=[quality])
    legs = {
        name: clients[name].subscribe("c", name, other, "sound", leg="socket")["legs"]["socket"]
        for name, other in zip(NAMES, reversed(NAMES), strict=True)
    }
    made: dict[str, Wire] = {}
    try:
        for name, leg in legs.items():
            made[name] = Wire(opened(leg))
        yield made
    finally:
        for one in made.values():
            one.close()


@pytest.fixture
def jack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """A JACK server without a sound card, for all clients of the test."""
    need(lacks())
    monkeypatch.setenv("JACK_DEFAULT_SERVER", f"reprise-{os.getpid()}")
    monkeypatch.setenv("JACK_NO_AUDIO_RESERVATION", "1")
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    server = Process(
        [
            # Synchronous: it waits for who is late, whose blocks are torn otherwise.
            *("jackd", "--sync", "--no-realtime", "--name", f"reprise-{os.getpid()}"),
            *("--timeout", "20000", "-d", "dummy", "--rate", "48000", "--period", BLOCK),
        ],
        tmp_path / "jackd.log",
    )
    server.start()
    try:
        until = time.monotonic() + LIMIT_S
        wait = ["jack_wait", "--wait", "--timeout", "1"]
        while subprocess.run(wait, capture_output=True, check=False).returncode != 0:
            assert time.monotonic() < until, server.said
        yield server
    finally:
        server.stop()


def test_two_jacktrips_hear_each_other_sample_by_sample(
    running: Running, jack: Process, tmp_path: Path
) -> None:
    with wires(running) as both:
        trips = [
            Process(
                [
                    *("jacktrip", "--client", "127.0.0.1", "--clientname", name),
                    *("--bindport", wire.jacktrip_port, "--peerport", wire.port),
                    *("--numchannels", 1, "--bitres", JACKTRIP_BITS, "--queue", JACKTRIP_QUEUE),
                    *("--zerounderrun", "--nojackportsconnect"),
                ],
                tmp_path / f"{name}.log",
            )
            for name, wire in both.items()
        ]
        try:
            for trip in trips:
                trip.start()
            folder = str(tmp_path)
            argv = [sys.executable, "-m", "tests.service.jack_sounds", folder, str(N_BLOCKS)]
            done = subprocess.run(
                [*argv, *NAMES], capture_output=True, text=True, timeout=3 * LIMIT_S, check=False
            )
            said = "".join(it.said[-2_000:] for it in (*trips, jack))
            assert done.returncode == 0, done.stderr + said
        finally:
            for trip in trips:
                trip.stop(signal.SIGINT)
    for which, name in enumerate(NAMES):
        number_of = {block.tobytes(): number for number, block in enumerate(sound(1 - which))}
        heard = np.fromfile(tmp_path / f"{name}.f32", np.float32).reshape(-1, BLOCK) * 32_768
        is_whole = (heard == np.rint(heard)).all(axis=1)
        assert is_whole.all(), f"{name}: {(~is_whole).sum()} blocks are not of 16 bits"
        blocks = [block for block in heard.astype(np.int16) if block.any()]
        known = [number_of[it] for block in blocks if (it := block.tobytes()) in number_of]
        assert len(known) == len(blocks), f"{name}: {len(blocks) - len(known)} are not as played"
        # Where JACK or JackTrip are late, they play silence, or the block before once more.
        assert known == sorted(known), f"{name}: not in order"
        assert len(set(known)) >= N_BLOCKS, f"{name} has heard {len(set(known))} blocks; {said}"
