"""The store in etcd, over TLS: only a service with a certificate of the right authority leads."""

import contextlib
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lab.controller import REPRISE
from tests.needs import need
from tests.service.monitored import get
from tests.service.running import (
    LIMIT_S,
    Process,
    Running,
    free_port,
    opened,
    publish,
    received,
    rtp,
    subscribe,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path


def certificate(folder: Path, name: str, authority: Pair | None = None) -> Pair:
    """Makes a certificate for 127.0.0.1 that an authority signs; without one, an authority."""
    made = Pair(folder / f"{name}.pem", folder / f"{name}-key.pem")
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += ["-nodes", "-subj", f"/CN={name}", "-days", "2"]
    argv += ["-keyout", str(made.key), "-out", str(made.certificate)]
    if authority is None:
        argv += ["-addext", "keyUsage=critical,keyCertSign"]
    else:
        argv += ["-addext", "subjectAltName=IP:127.0.0.1"]
        argv += ["-addext", "basicConstraints=critical,CA:FALSE"]
        argv += ["-CA", str(authority.certificate), "-CAkey", str(authority.key)]
    subprocess.run(argv, check=True, capture_output=True)
    return made


class Site:
    """An etcd node that talks only to clients with a certificate, and a service that has one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = certificate(folder, "authority")
        node = certificate(folder, "node", self.authority)
        self.endpoint = f"https://127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        peer = f"http://127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        argv: list[object] = ["etcd", "--name", "n0", "--data-dir", folder / "n0"]
        argv += ["--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint]
        argv += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
        argv += ["--initial-cluster", f"n0={peer}", "--logger", "zap", "--log-level", "warn"]
        argv += ["--cert-file", node.certificate, "--key-file", node.key]
        argv += ["--client-cert-auth", "--trusted-ca-file", self.authority.certificate]
        self.etcd = Process(argv, folder / "etcd.log")
        own = certificate(folder, "service", self.authority)
        self.running = Running(folder, tables=self.table(self.authority, own))
        config = self.running.config.read_text()
        self.running.config.write_text(config.replace(f'store = "{self.running.store}"\n', ""))

    def table(self, authority: Pair, own: Pair | None) -> str:
        """Returns the table of a service's configuration that says how to reach etcd."""
        lines = [f'endpoints = ["{self.endpoint}"]', f'ca = "{authority.certificate}"']
        if own is not None:
            lines += [f'certificate = "{own.certificate}"', f'key = "{own.key}"']
        return "\n".join(["[etcd]", *lines, ""])

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        self.etcd.start()
        try:
            with self.running:
                yield
        finally:
            self.etcd.stop(signal.SIGKILL)

    @contextlib.contextmanager
    def another_service(self, own: Pair | None) -> Iterator[tuple[Process, str]]:
        """A second service, with this certificate; yields it and its URL."""
        url = f"http://127.0.0.1:{free_port(socket.SOCK_STREAM)}"
        rest, _, _ = self.running.config.read_text().partition("[etcd]")
        before, after = (text.removeprefix("http://") for text in (self.running.url, url))
        config = self.folder / "another.toml"
        config.write_text(rest.replace(before, after) + self.table(self.authority, own))
        argv = [REPRISE, "serve", "--config", config]
        service = Process(argv, self.folder / "another.log")
        service.start()
        try:
            yield service, url
        finally:
            service.stop(signal.SIGKILL)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    need("" if shutil.which("etcd") else "etcd (Debian's package etcd-server)")
    return Site(tmp_path)


def wait_until(what: Callable[[], object], said: Callable[[], str]) -> None:
    until = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < until, said()
        time.sleep(0.05)


def test_a_service_keeps_its_conference_in_etcd_over_tls_and_goes_on_after_a_restart(
    site: Site,
) -> None:
    with site.open():
        running = site.running
        ann, bob = running.client("ann"), running.client("bob")
        with opened(publish(ann, "ann")) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
            camera.send(rtp(1))
            assert received(screen, 1) == [rtp(1)]
            running.service.stop()
            running.service.start()
            running.wait()
            there = running.administrator.conference("c")["participants"]
            assert there.keys() == {"ann", "bob"}
            camera.send(rtp(2))
            assert received(screen, 1) == [rtp(2)]
            with opened(subscribe(running.client("cid"), "cid", "ann")) as another:
                camera.send(rtp(3))
                assert received(another, 1) == received(screen, 1) == [rtp(3)]
        assert not running.store.exists()


@pytest.mark.parametrize("has_certificate", [False, True])
def test_without_a_certificate_of_the_right_authority_a_service_never_leads_and_says_why(
    site: Site, has_certificate: bool
) -> None:
    stranger = certificate(site.folder, "stranger", certificate(site.folder, "elsewhere"))

    def n_refused() -> int:
        """How many connections etcd has refused."""
        return site.etcd.said.count("rejected connection")

    with site.open(), site.another_service(stranger if has_certificate else None) as (other, url):
        wait_until(lambda: "stands by" in other.said, lambda: other.said)
        # No service leads now, and the other service keeps trying to reach etcd.
        site.running.service.stop()
        n_before = n_refused()
        wait_until(lambda: n_refused() >= n_before + 5, lambda: other.said + site.etcd.said)
        assert get(f"{url}/readyz")[0] == 503
        site.running.service.start()
        site.running.wait()
        assert get(f"{url}/readyz")[0] == 503
        said = other.said
    assert "ready: " not in said
    # Each message must name the certificate as the reason. A busy machine may also get no answer.
    told = [line for line in said.splitlines() if "stands by" in line and "no answer" not in line]
    assert told
    assert [line for line in told if "certificate" not in line.lower()] == []
