"""`reprise join` as a process."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.controller import REPRISE
from tests.service.running import LIMIT_S, Process, Running, participant_token


@contextmanager
def joined(
    running: Running, folder: Path, *options: object, name: str = "bob"
) -> Iterator[Process]:
    """Runs a participant's `reprise join`; yields the process once the participant has joined."""
    folder.mkdir(exist_ok=True)
    token = participant_token("c", name)
    argv = [REPRISE, "join", running.url, "--token", token, "--sdp", folder, *options]
    log = folder / "join.log"
    log.unlink(missing_ok=True)
    join = Process(argv, log)
    join.start()
    try:
        says(join, f"joined conference c as {name}")
        yield join
    finally:
        join.stop()


def says(process: Process, text: str) -> None:
    """Waits until a process has printed this text."""
    until = time.monotonic() + LIMIT_S
    while text not in process.said:
        assert time.monotonic() < until, f"{text!r} is not in {process.said!r}"
        time.sleep(0.05)
