"""Two JackTrip clients play to each other through the switch; each sample is compared."""

import contextlib
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import need
from tests.service import jacktrip
from tests.service.joins import joined, says
from tests.service.running import Process, Running, free_port

NAMES = ("ann", "bob")
N_BLOCKS = 1_500
"""How many blocks each client must hear: as many as are played in four seconds."""


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


def test_two_jacktrips_hear_each_other_sample_by_sample(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need(jacktrip.lacks())
    with (
        jacktrip.jack_server(tmp_path, monkeypatch) as jack,
        joins(running, tmp_path) as ports,
        contextlib.ExitStack() as stack,
    ):
        trips = [
            Process(jacktrip.client(name, port), tmp_path / f"{name}.log")
            for name, port in ports.items()
        ]
        for trip in trips:
            trip.start()
            stack.callback(trip.stop, signal.SIGINT)
        with jacktrip.Sounds(tmp_path, NAMES, N_BLOCKS) as sounds:
            sounds.check(lambda: "".join(it.said[-2_000:] for it in (*trips, jack)))
