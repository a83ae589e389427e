"""A switch on a UDP socket and a conference service, each a process that a test can kill."""

import base64
import contextlib
import hashlib
import hmac
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from reprise_conference import Client, MediaSocket, NotSignedInError, ProblemError
from reprise_conference.hello import is_hello

from lab.controller import REPRISE
from lab.switch import LOSE_NOTHING, SWITCH

SECRET = "0123456789abcdef0123456789abcdef"
TOKEN_S = 24 * 3_600
"""How long tokens of a long test are valid: longer than the test, also if a clock jumps."""
LIMIT_S = 120.0
"""The most time that something may take. It matters only if something hangs."""


def token(secret: str = SECRET, **claims: object) -> str:
    """Makes a token that the service accepts if `secret` is the service's secret."""
    claims.setdefault("exp", int(time.time()) + 3_600)
    header = _base64(json.dumps({"alg": "HS256", "typ": "JWT"}).encode())
    text = f"{header}.{_base64(json.dumps(claims).encode())}"
    signature = hmac.digest(secret.encode(), text.encode(), hashlib.sha256)
    return f"{text}.{_base64(signature)}"


GRANTS: dict[str, object] = {"publish": ["audio", "video"], "max_kbps": 10_000, "subscribe": True}
"""What participants may do, unless a test says otherwise."""


def participant_token(conference: str, participant: str, **grants: object) -> str:
    return token(conference=conference, sub=participant, grants=GRANTS | grants)


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def free_port(kind: int) -> int:
    """A port that was free a moment ago."""
    with socket.socket(socket.AF_INET, kind) as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Process:
    """A process, whose output goes to a file."""

    def __init__(self, argv: Iterable[object], log: Path) -> None:
        self._argv = [str(word) for word in argv]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._argv, stdout=log, stderr=log)

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(by)
            self._process.wait(LIMIT_S)
            self._process = None

    def replace(self, *options: object) -> bool:
        """Starts a second process with these options added, which takes over and ends this process.

        Returns False if the second process failed, so that this process keeps running.
        """
        assert self._process is not None
        with self._log.open("ab") as log:
            argv = [*self._argv, *(str(word) for word in options)]
            other = subprocess.Popen(argv, stdout=log, stderr=log)
        until = time.monotonic() + LIMIT_S
        while self._process.poll() is None:
            if other.poll() is not None:
                return False
            assert time.monotonic() < until, self.said
            time.sleep(0.01)
        assert self._process.returncode == 0, self.said
        self._process = other
        return True

    def wait(self, limit_s: float = LIMIT_S) -> int:
        """Waits until the process ends by itself; returns its exit status."""
        assert self._process is not None
        status = self._process.wait(limit_s)
        self._process = None
        return status

    def signal(self, which: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(which)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    @property
    def said(self) -> str:
        return self._log.read_text(errors="replace")


class Running:
    """A switch with 127.0.0.1 as its address for media, and a service.

    `top` and `tables` are further lines of the configuration. With `ca` the service serves HTTPS,
    and clients trust that file.
    """

    def __init__(
        self,
        folder: Path,
        *,
        top: str = "",
        tables: str = "",
        ca: Path | None = None,
        switch_options: Iterable[object] = (),
    ) -> None:
        grpc, http = free_port(socket.SOCK_STREAM), free_port(socket.SOCK_STREAM)
        self._switch_address = f"127.0.0.1:{grpc}"
        self.media_port = free_port(socket.SOCK_DGRAM)
        self.ca = ca
        self.url = f"{'https' if ca else 'http'}://127.0.0.1:{http}"
        (folder / "secret").write_text(SECRET)
        self.config = folder / "reprise.toml"
        self.store = folder / "store"
        self.config.write_text(
            f"""{top}
listen = "127.0.0.1:{http}"
store = "{self.store}"
secrets = ["{folder / "secret"}"]

[switch]
name = "s1"
p4runtime = "127.0.0.1:{grpc}"
addresses = [
    {{ port = 1, ip = "127.0.0.1", mac = "02:00:7f:00:00:01", udp_port = {self.media_port} }},
]
{tables}
"""
        )
        port = f"1@udp:127.0.0.1:{self.media_port}"
        argv = [SWITCH, "--grpc", f"127.0.0.1:{grpc}", "-i", port, *LOSE_NOTHING]
        argv += switch_options
        self.switch = Process(argv, folder / "switch.log")
        self.service = Process([REPRISE, "serve", "--config", self.config], folder / "service.log")
        self.administrator = Client(self.url, token(grants={"administer": True}), ca=ca)

    def __enter__(self) -> Self:
        os.environ.pop("REPRISE_TOKEN", None)
        self.switch.start()
        self.service.start()
        self.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.service.stop()
        self.switch.stop()

    def p4rt(self, command: str) -> str:
        """What the switch's P4Runtime shell prints for a command, errors included."""
        argv: list[str | Path] = [REPRISE, "p4rt", "--switch", self._switch_address, "-c", command]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        return done.stdout + done.stderr

    def wait(self) -> None:
        """Waits until the service answers."""
        until = time.monotonic() + LIMIT_S
        while True:
            try:
                self.administrator.put_conference("c")
                return
            except (OSError, ProblemError):
                if time.monotonic() > until:
                    raise AssertionError(self.service.said) from None
                time.sleep(0.05)

    def client(self, participant: str, conference: str = "c", **grants: object) -> Client:
        """Lets a participant join; returns the participant's client."""
        its = participant_token(conference, participant, **grants)
        client = Client(self.url, its, ca=self.ca)
        client.join(conference, participant)
        return client


def publish(client: Client, participant: str, conference: str = "c") -> dict[str, Any]:
    """Publishes a camera; returns its leg (its socket's connection to the conference)."""
    quality = {"name": "one", "max_kbps": 10_000, "leg": "cam"}
    there = client.publish(conference, participant, "cam", kind="video", qualities=[quality])
    leg: dict[str, Any] = there["legs"]["cam"]
    return leg


def subscribe(client: Client, participant: str, to: str, conference: str = "c") -> dict[str, Any]:
    """Receives a camera; returns the leg (the receiving socket's connection)."""
    there = client.subscribe(conference, participant, to, "cam", leg=f"of-{to}")
    leg: dict[str, Any] = there["legs"][f"of-{to}"]
    return leg


def opened(leg: dict[str, Any]) -> MediaSocket:
    """Returns a socket that has signed in to a leg. Retries, as the switch may be away at first."""
    opened = MediaSocket(leg)
    until = time.monotonic() + LIMIT_S
    while True:
        try:
            opened.sign_in()
            return opened
        except NotSignedInError:
            if time.monotonic() > until:
                raise


class PlainSocket:
    """A socket that signs in to a leg and from then on sends no hellos."""

    def __init__(self, leg: dict[str, Any]) -> None:
        self._signed_in = opened(leg)
        # A `MediaSocket` sends hellos when it receives, so another object reads the same socket.
        self._reads = socket.socket(fileno=os.dup(self._signed_in.fileno()))
        self._reads.setblocking(False)

    def send(self, packet: bytes) -> None:
        self._signed_in.send(packet)

    def fileno(self) -> int:
        return self._reads.fileno()

    def received(self) -> list[bytes]:
        """Returns the media that has come and was not read yet."""
        found = []
        with contextlib.suppress(BlockingIOError):
            while True:
                found.append(self._reads.recv(65_536))
        # If a hello was repeated before its answer arrived, a second answer may follow.
        return [packet for packet in found if not is_hello(packet)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reads.close()
        self._signed_in.close()


def rtp(number: int, content: bytes = b"picture") -> bytes:
    """An RTP packet (RFC 3550, section 5.1)."""
    return b"\x80\x60" + number.to_bytes(2, "big") + bytes(4) + b"\0\0\0\x11" + content


def received(leg: MediaSocket, n: int, timeout_s: float = LIMIT_S) -> list[bytes]:
    """Receives the next packets, `n` at most, within `timeout_s`."""
    found: list[bytes] = []
    until = time.monotonic() + timeout_s
    while len(found) < n and (left_s := until - time.monotonic()) > 0:
        if (packet := leg.receive(left_s)) is not None:
            found.append(packet)
    return found
