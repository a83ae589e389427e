"""`reprise join` stays in a conference while its service is away, and says why it ends."""

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.controller import REPRISE
from tests.service.running import (
    LIMIT_S,
    Process,
    Running,
    free_port,
    opened,
    participant_token,
    publish,
    rtp,
)


@contextmanager
def joined(running: Running, folder: Path, *options: object) -> Iterator[Process]:
    """Bob's `reprise join`, once it has joined."""
    bob = participant_token("c", "bob")
    argv = [REPRISE, "join", running.url, "--token", bob, "--sdp", folder, *options]
    log = folder / "join.log"
    log.unlink(missing_ok=True)
    join = Process(argv, log)
    join.start()
    try:
        says(join, "joined conference c as bob")
        yield join
    finally:
        join.stop()


def says(process: Process, text: str) -> None:
    until = time.monotonic() + LIMIT_S
    while text not in process.said:
        assert time.monotonic() < until, f"{text!r} is not in {process.said!r}"
        time.sleep(0.05)


def player(port: int) -> socket.socket:
    there = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    there.bind(("127.0.0.1", port))
    there.settimeout(LIMIT_S)
    return there


def test_it_stays_while_the_service_is_away(running: Running, tmp_path: Path) -> None:
    port = free_port(socket.SOCK_DGRAM)
    ann = running.client("ann")
    with (
        opened(publish(ann, "ann")) as camera,
        player(port) as of_ann,
        joined(running, tmp_path, "--port", port) as join,
    ):
        says(join, f"receives ann/cam on 127.0.0.1 port {port}")
        running.service.stop(signal.SIGKILL)
        says(join, "the service is waited for")
        camera.send(rtp(1))
        assert of_ann.recv(2_000) == rtp(1)
        running.service.start()
        running.wait()
        says(join, "the service is back")
        with opened(publish(running.client("cid"), "cid")) as another, player(port + 2) as of_cid:
            says(join, f"receives cid/cam on 127.0.0.1 port {port + 2}")
            another.send(rtp(2))
            assert of_cid.recv(2_000) == rtp(2)
        camera.send(rtp(3))
        assert of_ann.recv(2_000) == rtp(3)


def test_it_says_why_it_ends(running: Running, tmp_path: Path) -> None:
    bob = ["conferences", "c", "participants", "bob"]
    with joined(running, tmp_path) as join:
        running.administrator.request("DELETE", bob)
        assert join.wait() == 1
        assert "bob takes part no longer: an administrator has removed it" in join.said
    with joined(running, tmp_path, "--receive-nothing") as join:
        running.administrator.request("DELETE", ["conferences", "c"])
        assert join.wait() == 0
        assert "the conference has ended" in join.said
