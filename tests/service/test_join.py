"""`reprise join`: stays while the service is away, says why it ends, serves several players."""

import re
import signal
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from tests.service.joins import joined, says
from tests.service.running import LIMIT_S, Process, Running, free_port, opened, publish, rtp


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


def test_datagrams_of_one_program_are_published_and_each_gets_one_others(
    running: Running, tmp_path: Path
) -> None:
    ports = {name: free_port(socket.SOCK_DGRAM) for name in ("ann", "bob", "cid")}
    with ExitStack() as stack:
        said = {}
        for name, port in ports.items():
            options = ["--datagrams", "audio", "--port", port]
            said[name] = stack.enter_context(joined(running, tmp_path / name, *options, name=name))
        # `reprise join` assigns its ports in the order in which the other participants came.
        near = {}
        for name in ports:
            for other in ports:
                if other != name:
                    near[name, other] = stack.enter_context(
                        player(receiving_port(said[name], other))
                    )
        until = time.monotonic() + LIMIT_S
        for name in ports:
            first, second = (other for other in ports if other != name)
            programs = [near[name, other] for other in (first, second)]
            published = f"from {name}'s first program".encode()
            for other in (first, second):
                hears = near[other, name]
                hears.settimeout(0.1)
                heard = b""
                while heard != published:
                    assert time.monotonic() < until, said[name].said
                    for program, what in zip(programs, (published, b"another's"), strict=True):
                        program.sendto(what, ("127.0.0.1", program.getsockname()[1] + 1))
                    with suppress(TimeoutError):
                        heard = hears.recv(2_000)
                        # The sound must come from the right participant's track and from the right
                        # program.
                        assert heard == published


def receiving_port(join: Process, other: str) -> int:
    says(join, f"receives {other}/audio on 127.0.0.1 port ")
    found = re.search(rf"receives {other}/audio on 127.0.0.1 port (\d+)", join.said)
    assert found is not None
    return int(found[1])
