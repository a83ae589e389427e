"""A JACK server without a sound card, and JackTrip clients that play known sounds to each other."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import numpy as np
import numpy.typing as npt
import pytest

from tests.service.jack_sounds import BLOCK, sound
from tests.service.running import LIMIT_S, Process

BITS = 24
"""With 16 bits JackTrip adds noise (dither); with 32 bits its version 1.7 plays silence."""
QUEUE = 16
"""For how many packets JackTrip waits for a late one; on a busy machine some packets are late."""


def lacks() -> str:
    missing = [name for name in ("jackd", "jacktrip") if shutil.which(name) is None]
    return f"{' and '.join(missing)}: run scripts/install-packages jacktrip" if missing else ""


@contextlib.contextmanager
def jack_server(folder: Path, environment: pytest.MonkeyPatch) -> Iterator[Process]:
    """A JACK server without a sound card, for all clients of the test, in any namespace."""
    name = f"reprise-{os.getpid()}"
    environment.setenv("JACK_DEFAULT_SERVER", name)
    environment.setenv("JACK_NO_AUDIO_RESERVATION", "1")
    environment.setenv("QT_QPA_PLATFORM", "offscreen")
    server = Process(
        [
            # In its synchronous mode JACK waits for late clients, whose blocks would be torn
            # otherwise.
            *("jackd", "--sync", "--no-realtime", "--name", name),
            *("--timeout", "20000", "-d", "dummy", "--rate", "48000", "--period", BLOCK),
        ],
        folder / "jackd.log",
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


def client(name: str, port: int) -> list[object]:
    """The command of a JackTrip that hears what comes to `port` and sends to the next port."""
    return [
        *("jacktrip", "--client", "127.0.0.1", "--clientname", name),
        *("--bindport", port, "--peerport", port + 1),
        *("--numchannels", 1, "--bitres", BITS, "--queue", QUEUE),
        *("--zerounderrun", "--nojackportsconnect"),
    ]


class Sounds:
    """Plays a known sound into each of two JackTrips, and records what each of them plays."""

    def __init__(self, folder: Path, names: tuple[str, str], n_blocks: int) -> None:
        self._folder, self._names, self._n_blocks = folder, names, n_blocks
        argv = [sys.executable, "-m", "tests.service.jack_sounds", folder, n_blocks, *names]
        self._client = Process(argv, folder / "jack_sounds.log")

    def __enter__(self) -> Self:
        self._client.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._client.stop(signal.SIGKILL)

    def check(self, said: Callable[[], str]) -> None:
        """Waits until each has recorded enough, and compares it sample by sample with what the
        other JackTrip was given.

        `said` returns what the programs have printed, for the message of a failed test.
        """
        status = self._client.wait(3 * LIMIT_S)
        assert status == 0, self._client.said + said()
        for which, name in enumerate(self._names):
            known = self._numbers(name, sound(1 - which))
            # Where JACK or JackTrip are late, they play silence, or the block before once more.
            assert known == sorted(known), f"{name}: not in order"
            n_heard = len(set(known))
            assert n_heard >= self._n_blocks, f"{name} has heard {n_heard} blocks; {said()}"

    def _numbers(self, name: str, played: npt.NDArray[np.int16]) -> list[int]:
        """The numbers of the blocks that a JackTrip has played, silence left out."""
        number_of = {block.tobytes(): number for number, block in enumerate(played)}
        recorded = np.fromfile(self._folder / f"{name}.f32", np.float32)
        heard = recorded.reshape(-1, BLOCK) * 32_768
        is_whole = (heard == np.rint(heard)).all(axis=1)
        assert is_whole.all(), f"{name}: {(~is_whole).sum()} blocks are not of 16 bits"
        blocks = [block for block in heard.astype(np.int16) if block.any()]
        known = [number_of[it] for block in blocks if (it := block.tobytes()) in number_of]
        assert len(known) == len(blocks), f"{name}: {len(blocks) - len(known)} are not as played"
        return known
