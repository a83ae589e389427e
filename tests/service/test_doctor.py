"""Tests `reprise doctor --service`, which checks the way from a host to a running service."""

import json
import signal
import socket
import subprocess
import time
from typing import Any

from lab.controller import REPRISE
from tests.service.running import (
    LIMIT_S,
    Running,
    free_port,
    opened,
    participant_token,
    publish,
    received,
    rtp,
    subscribe,
    token,
)


def doctor(*arguments: str, expected: int = 0) -> dict[str, Any]:
    """Runs `reprise doctor`; returns its findings by their subject.

    Of several findings with the same subject, the last is returned.
    """
    done = subprocess.run(
        [REPRISE, "doctor", *arguments, "--json"],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == expected, done.stdout + done.stderr
    report = json.loads(done.stdout)
    found: dict[str, Any] = {finding["what"]: finding for finding in report["findings"]}
    if expected:
        assert "cannot be used from here" in report["error"]
    return found


def levels(found: dict[str, Any], *whats: str) -> list[str]:
    return [found[what]["level"] for what in whats]


def test_all_is_well_for_a_participant_who_keeps_what_he_has(running: Running) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    with opened(publish(ann, "ann")) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
        before = running.administrator.conference("c")
        found = doctor("--service", running.url, "--token", participant_token("c", "bob"))
        whats = ("TCP", "service", "ready", "clock", "token", "media", "MTU", "firewall")
        assert set(levels(found, *whats)) == {"ok"}, found
        assert f"UDP 127.0.0.1:{running.media_port} answers" in found["media"]["found"]
        assert running.administrator.conference("c") == before
        # Nobody was signed out by the hello of another socket.
        camera.send(rtp(1))
        assert received(screen, 1) == [rtp(1)]


def test_what_is_wrong_with_a_token_is_said(running: Running) -> None:
    running.client("ann")
    ended = token(conference="c", sub="ann", exp=int(time.time()) - 120)
    found = doctor("--service", running.url, "--token", ended, expected=1)
    assert "ended 2 min ago" in found["token"]["found"]
    early = token(conference="c", sub="ann", nbf=int(time.time()) + 600)
    found = doctor("--service", running.url, "--token", early, expected=1)
    assert "begins in" in found["token"]["found"]
    foreign = token("another secret of thirty-two bytes", conference="c", sub="ann")
    found = doctor("--service", running.url, "--token", foreign, expected=1)
    assert found["token"]["level"] == "unusable"
    assert "another secret" in found["token"]["advice"]
    found = doctor("--service", running.url, "--token", "not.a.token", expected=1)
    assert "base64url" in found["token"]["found"]
    absent = participant_token("c", "carl")
    found = doctor("--service", running.url, "--token", absent)
    assert "carl has not joined" in found["media"]["found"]
    assert found["media"]["level"] == "advice"


def test_a_switch_that_is_away_and_a_port_without_a_service_are_said(running: Running) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    publish(ann, "ann")
    subscribe(bob, "bob", "ann")
    running.switch.stop(signal.SIGKILL)
    until = time.monotonic() + LIMIT_S
    arguments = ("--service", running.url, "--token", participant_token("c", "bob"))
    found = doctor(*arguments, expected=1)
    while found["ready"]["level"] == "ok" and time.monotonic() < until:
        found = doctor(*arguments, expected=1)
    assert levels(found, "token", "media", "ready") == ["ok", "unusable", "advice"]
    assert "refused" in found["media"]["found"]
    assert "switch" in found["ready"]["found"]
    nobody = f"http://127.0.0.1:{free_port(socket.SOCK_STREAM)}"
    found = doctor("--service", nobody, expected=1)
    assert list(found) == ["TCP"]
    found = doctor("--service", running.url.replace("http", "https"), expected=1)
    assert found["TLS"]["level"] == "unusable"
