"""Tests `reprise load`: its participants join as hosts do, and measure what they receive."""

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from lab.controller import REPRISE
from tests.service.running import (
    LIMIT_S,
    Process,
    Running,
    opened,
    participant_token,
    publish,
    rtp,
)

RATE = 100
"""How many participants join per second: many, so that the tests are short."""


def argv(running: Running, folder: Path, *options: object) -> list[object]:
    secret = ("--secret", folder / "secret", "--conference", "c")
    return [REPRISE, "load", running.url, "--json", "--rate", RATE, *secret, *options]


def load(running: Running, folder: Path, *options: object) -> tuple[int, list[dict[str, Any]], str]:
    """Runs a load to its end; returns its exit status, JSON documents and standard error."""
    words = [str(word) for word in argv(running, folder, *options)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return done.returncode, documents(done.stdout), done.stderr


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def participants(running: Running) -> set[str]:
    return set(running.administrator.conference("c")["participants"])


def test_twenty_lose_nothing_and_all_have_left(running: Running, tmp_path: Path) -> None:
    options = ("--participants", 20, "--publishers", 4, "--seconds", 5)
    status, said, errors = load(running, tmp_path, *options)
    assert status == 0, errors
    *seconds, whole = said
    assert (whole["joins"], whole["failed"], whole["silent"], whole["not_left"]) == (20, 0, 0, 0)
    assert (whole["lost"], whole["duplicated"], whole["foreign"]) == (0, 0, 0)
    # 4 publishers send 50 packets a second, for 5 s at least, to 19 participants each.
    assert whole["sent"] >= 4 * 50 * 5
    assert whole["packets"] >= 4 * 50 * 5 * 19
    assert whole["first_packet_ms"]["n"] == 16
    assert 0 < whole["first_packet_ms"]["p50"] <= whole["first_packet_ms"]["max"]
    assert 0 < whole["delay_ms"]["p50"] <= whole["delay_ms"]["p99.9"]
    assert len(seconds) >= 5
    assert max(second["present"] for second in seconds) == 20
    assert sum(second["packets"] for second in seconds) <= whole["packets"]
    assert participants(running) == set()


def test_participants_leave_and_join_again_and_get_what_they_chose(
    running: Running, tmp_path: Path
) -> None:
    options = ("--participants", 12, "--publishers", 4, "--subscribe", 1)
    status, said, errors = load(running, tmp_path, *options, "--leave", 50, "--seconds", 3)
    assert status == 0, errors
    whole = said[-1]
    # Each second, half of the 8 participants who do not publish leave.
    assert whole["leaves"] >= 6
    assert whole["joins"] == 12 + whole["leaves"]
    assert (whole["lost"], whole["foreign"], whole["silent"]) == (0, 0, 0)
    assert whole["first_packet_ms"]["n"] > 8
    assert participants(running) == set()


def test_an_interrupt_lets_all_leave(running: Running, tmp_path: Path) -> None:
    options = ("--participants", 6, "--publishers", 2, "--seconds", 600)
    process = Process(argv(running, tmp_path, *options), tmp_path / "load.log")
    process.start()
    until = time.monotonic() + LIMIT_S
    while '"present":6' not in process.said:
        assert time.monotonic() < until, process.said
        time.sleep(0.05)
    process.stop(signal.SIGINT)
    whole = documents(process.said)[-1]
    assert (whole["joins"], whole["lost"], whole["not_left"]) == (6, 0, 0)
    assert participants(running) == set()


def test_a_packet_that_was_not_subscribed_is_foreign(running: Running, tmp_path: Path) -> None:
    ann = running.client("ann")
    camera = opened(publish(ann, "ann"))
    options = ("--participants", 3, "--publishers", 1, "--seconds", 4)
    process = Process(argv(running, tmp_path, *options), tmp_path / "load.log")
    process.start()
    until = time.monotonic() + LIMIT_S
    while '"present":3' not in process.said:
        assert time.monotonic() < until, process.said
        time.sleep(0.05)
    victim = next(name for name in participants(running) if name.endswith("-0002"))
    running.administrator.subscribe("c", victim, "ann", "cam", leg="media")
    for number in range(200):
        camera.send(rtp(number))
        camera.receive(0.01)
    camera.close()
    while '"error"' not in process.said:
        assert time.monotonic() < until, process.said
        time.sleep(0.05)
    process.stop()
    whole = documents(process.said)[-1]
    assert whole["foreign"] > 0
    assert "foreign packets: expected only packets of this load's publishers" in whole["error"]
    assert participants(running) == {"ann"}


def test_tokens_of_a_file_take_part(running: Running, tmp_path: Path) -> None:
    names = ("ann", "bob", "cid")
    tokens = tmp_path / "tokens"
    tokens.write_text("\n".join(participant_token("c", name) for name in names))
    words = [str(REPRISE), "load", running.url, "--json", "--tokens", str(tokens), "--seconds", "2"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    whole = documents(done.stdout)[-1]
    assert (whole["joins"], whole["lost"], whole["silent"]) == (3, 0, 0)
    tokens.write_text(participant_token("c", "ann") + "\n" + participant_token("d", "bob"))
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 1
    assert "token 2: it is for conference d, not c" in done.stderr


def test_what_cannot_join_is_said(running: Running, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("another secret of the service!!!")
    status, said, errors = load(running, tmp_path, "--participants", 2)
    assert status == 1
    assert said[-1]["failed"] == 2
    assert "2 could not join; load-" in errors
    assert "the token is not good" in errors
    status, _, errors = load(running, tmp_path, "--participants", 1, "--publishers", 2)
    assert status == 1
    assert "expected at most as many as there are participants, 1" in errors
