"""Two JackTrip clients play to each other through the switch; each sample is compared."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.needs import need
from tests.service.jack_sounds import BLOCK, sound
from tests.service.joins import joined, says
from tests.service.running import LIMIT_S, Process, Running, free_port

NAMES = ("ann", "bob")
N_BLOCKS = 1_500
"""How many blocks each client must hear: as many as are played in four seconds."""
JACKTRIP_BITS = 24
"""With 16 bits JackTrip adds noise (dither); with 32 bits its version 1.7 plays silence."""
JACKTRIP_QUEUE = 16
"""For how many packets JackTrip waits for a late one; on a busy machine some packets are late."""


def lacks() -> str:
    missing = [name for name in ("jackd", "jacktrip") if shutil.which(name) is None]
    return f"{' and '.join(missing)}: run scripts/install-packages jacktrip" if missing else ""


@contextlib.contextmanager
def joins(running: Running, folder: Path) -> Iterator[dict[str, int]]:
    """Lets Ann and Bob join with a track of datagrams each.

    Yields for each name the port at which this participant's JackTrip hears the other participant.
    What a JackTrip sends to the port with the next higher number is published.
    """
    with contextlib.ExitStack() as stack:
        said: dict[str, Process] = {}
        ports: dict[str, int] = {}
        for name in NAMES:
            ports[name] = free_port(socket.SOCK_DGRAM)
            options = ["--datagrams", "audio", "--port", ports[name], "--max-kbps", 10_000]
            said[name] = stack.enter_context(joined(running, folder / name, *options, name=name))
        for name, other in zip(NAMES, reversed(NAMES), strict=True):
            says(said[name], f"receives {other}/audio on 127.0.0.1 port {ports[name]}")
        yield ports


@pytest.fixture
def jack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    """A JACK server without a sound card, for all clients of the test."""
    need(lacks())
    monkeypatch.setenv("JACK_DEFAULT_SERVER", f"reprise-{os.getpid()}")
    monkeypatch.setenv("JACK_NO_AUDIO_RESERVATION", "1")
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    server = Process(
        [
            # In its synchronous mode JACK waits for late clients, whose blocks would be torn
            # otherwise.
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
    with joins(running, tmp_path) as ports:
        trips = [
            Process(
                [
                    *("jacktrip", "--client", "127.0.0.1", "--clientname", name),
                    *("--bindport", port, "--peerport", port + 1),
                    *("--numchannels", 1, "--bitres", JACKTRIP_BITS, "--queue", JACKTRIP_QUEUE),
                    *("--zerounderrun", "--nojackportsconnect"),
                ],
                tmp_path / f"{name}.log",
            )
            for name, port in ports.items()
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
