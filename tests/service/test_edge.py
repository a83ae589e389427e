"""The service's edge: TLS, limits, webhooks, reload, drain, backup."""

import hashlib
import hmac
import http.client
import itertools
import json
import signal
import socket
import ssl
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from reprise_conference import Client, ProblemError

from lab.controller import REPRISE
from tests.service.running import (
    LIMIT_S,
    SECRET,
    Process,
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

ADMINISTRATOR = {"administer": True}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    with Running(tmp_path) as running:
        yield running


def wait_until(what: Callable[[], object], running: Running) -> None:
    until = time.monotonic() + LIMIT_S
    while not what():
        assert time.monotonic() < until, running.service.said
        time.sleep(0.02)


def certificate(folder: Path) -> tuple[Path, Path]:
    """Makes a self-signed certificate and its key."""
    file, key = folder / "certificate.pem", folder / "key.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += ["-nodes", "-subj", "/CN=service", "-addext", "subjectAltName=IP:127.0.0.1"]
    argv += ["-addext", "basicConstraints=critical,CA:FALSE", "-days", "2"]
    argv += ["-keyout", str(key), "-out", str(file)]
    subprocess.run(argv, check=True, capture_output=True)
    return file, key


def reprise(*words: object, status: int = 0) -> str:
    argv = [str(word) for word in (REPRISE, *words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_tls_serves_curl_and_python_and_a_plain_client_does_not_hang(tmp_path: Path) -> None:
    file, key = certificate(tmp_path)
    pair = f'certificate = "{file}"\nkey = "{key}"\n'
    # The connection to the switch uses TLS, too, and the switch asks for a certificate.
    tables = f'[tls]\n{pair}[switch.tls]\nca = "{file}"\n{pair}'
    options = ("--tls-cert", file, "--tls-key", key, "--tls-client-ca", file)
    with Running(tmp_path, tables=tables, ca=file, switch_options=options) as running:
        curl = ["curl", "--silent", "--show-error", "--cacert", str(file), f"{running.url}/healthz"]
        done = subprocess.run(curl, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert (done.stdout, done.stderr) == ("ok\n", "")
        ann, bob = running.client("ann"), running.client("bob")
        with opened(publish(ann, "ann")) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
            camera.send(rtp(1))
            assert received(screen, 1) == [rtp(1)]
            # `reprise join` opens the event stream, over TLS, before it receives.
            of_cid = ("--token", participant_token("c", "cid"), "--ca", file, "--sdp", tmp_path)
            argv = [REPRISE, "join", running.url, *of_cid, "--port", free_port(socket.SOCK_DGRAM)]
            join = Process(argv, tmp_path / "join.log")
            join.start()
            wait_until(lambda: "receives ann/cam" in join.said, running)
            join.stop()
            assert "error" not in join.said
        administrator = token(grants=ADMINISTRATOR)
        words = ("drain", running.url, "--off", "--token", administrator)
        assert "not draining" in reprise(*words, "--ca", file)
        assert "--ca FILE" in reprise(*words, status=1)
        parts = urlsplit(running.url)
        plain = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=LIMIT_S)
        plain.request("GET", "/healthz")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        plain.close()
        # A client that begins a handshake and then stays silent loses its connection, too.
        began = time.monotonic()
        with socket.create_connection(("127.0.0.1", parts.port or 0)) as silent:
            silent.settimeout(LIMIT_S)
            silent.send(b"\x16\x03\x01")
            assert silent.recv(100) == b""
        assert time.monotonic() - began > 9


def test_a_flood_of_bad_tokens_is_refused_and_a_good_one_joins(tmp_path: Path) -> None:
    tables = "[limits]\nbad_tokens = { per_second = 5, burst = 50 }\n"
    statuses: dict[int, int] = {}
    retry: set[str | None] = set()
    end = threading.Event()
    with Running(tmp_path, tables=tables) as running:
        port = urlsplit(running.url).port

        def flood() -> None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
            while not end.is_set():
                headers = {"Authorization": f"Bearer {participant_token('c', 'eve')}x"}
                connection.request("GET", "/v1/conferences/c", headers=headers)
                answer = connection.getresponse()
                body = json.loads(answer.read())
                assert body["status"] == answer.status
                statuses[answer.status] = statuses.get(answer.status, 0) + 1
                if answer.status == 429:
                    retry.add(answer.getheader("Retry-After"))
            connection.close()

        threads = [threading.Thread(target=flood) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            wait_until(lambda: statuses.get(429, 0) > 100, running)
            began = time.monotonic()
            running.client("ann")
            assert time.monotonic() - began < 5
        finally:
            end.set()
            for thread in threads:
                thread.join(LIMIT_S)
        assert statuses.keys() == {401, 429}
        assert retry == {"1"}


class Receiver:
    """Receives webhooks.

    Answers the first `n_failures` requests with an error, and keeps the others in `taken`.
    """

    def __init__(self, n_failures: int, tls: ssl.SSLContext | None = None) -> None:
        self.taken: list[tuple[dict[str, str], bytes]] = []
        self.n_failed = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                fails = receiver.n_failed < n_failures
                if fails:
                    receiver.n_failed += 1
                else:
                    receiver.taken.append((headers, body))
                self.send_response(500 if fails else 204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Logs nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        scheme = "http" if tls is None else "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/hook?key=hidden"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def test_a_webhook_gets_all_events_in_order_though_it_fails_and_another_one_hangs(
    tmp_path: Path,
) -> None:
    receiver = Receiver(n_failures=2)
    secret = "a secret of a hook, of 32 bytes or more"
    (tmp_path / "hook").write_text(secret + "\n")
    with socket.create_server(("127.0.0.1", 0)) as hangs:
        tables = f"""
[[webhooks]]
url = "http://127.0.0.1:{hangs.getsockname()[1]}"
secret = "{tmp_path / "hook"}"

[[webhooks]]
url = "{receiver.url}"
secret = "{tmp_path / "hook"}"
events = ["joined", "left"]
"""
        with Running(tmp_path, tables=tables) as running:
            clients = [running.client(f"p{n}") for n in range(20)]
            for n, client in enumerate(clients):
                client.leave("c", f"p{n}")
            wait_until(lambda: len(receiver.taken) >= 40, running)
            assert secret not in running.service.said
            assert "hidden" not in running.service.said
    receiver.close()
    assert receiver.n_failed == 2
    events = [json.loads(body) for _, body in receiver.taken]
    expected = [("joined", f"p{n}") for n in range(20)] + [("left", f"p{n}") for n in range(20)]
    assert [(event["event"], event["participant"]) for event in events] == expected
    numbers = [event["number"] for event in events]
    assert numbers == sorted(set(numbers))
    for headers, body in receiver.taken:
        signed = headers["reprise-time"].encode() + b"." + body
        signature = hmac.digest(secret.encode(), signed, hashlib.sha256).hex()
        assert headers["reprise-signature"] == signature
        assert headers["reprise-event-number"] == str(json.loads(body)["number"])
        assert abs(int(headers["reprise-time"]) - time.time()) < LIMIT_S


def test_a_webhook_over_tls_trusts_only_the_certificates_of_its_file(tmp_path: Path) -> None:
    file, key = certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(file, key)
    receiver = Receiver(n_failures=0, tls=tls)
    (tmp_path / "hook").write_text("a secret of a hook, of 32 bytes or more")
    hook = f"""
[[webhooks]]
url = "{receiver.url}"
secret = "{tmp_path / "hook"}"
"""
    tables = f'{hook}ca = "{file}"\nevents = ["joined"]\n{hook}events = ["left"]\n'
    with Running(tmp_path, tables=tables) as running:
        running.client("ann").leave("c", "ann")
        running.client("bob")
        wait_until(lambda: len(receiver.taken) >= 2, running)
        # The webhook for the event `left` trusts only public authorities, so its requests fail.
        wait_until(lambda: "certificate" in running.service.said, running)
    receiver.close()
    events = [json.loads(body) for _, body in receiver.taken]
    assert [(it["event"], it["participant"]) for it in events] == [
        ("joined", "ann"),
        ("joined", "bob"),
    ]


def status_of(client: Client) -> int:
    try:
        client.conference("c")
    except ProblemError as problem:
        return problem.status
    return 200


def test_a_reload_changes_a_secret_and_loses_no_packet(running: Running) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    old = Client(running.url, token(grants=ADMINISTRATOR))
    new = Client(running.url, token("another secret, of 32 bytes or more", grants=ADMINISTRATOR))
    secret = running.config.with_name("secret")
    good = running.config.read_text()
    with opened(publish(ann, "ann")) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
        numbers = (n % 60_000 for n in itertools.count())

        def forward() -> None:
            """Checks that a packet arrives."""
            # Without a pause a fast switch polices the camera, which may send 10 Mbit/s.
            time.sleep(0.001)
            packet = rtp(next(numbers))
            camera.send(packet)
            came = received(screen, 1)
            assert came == [packet], (
                running.administrator.conference("c"),
                running.service.said,
                screen.local_address,
            )

        def reload(text: str, said: str) -> None:
            n_before = running.service.said.count(said)
            running.config.write_text(text)
            running.service.signal(signal.SIGHUP)
            until = time.monotonic() + LIMIT_S
            while running.service.said.count(said) == n_before:
                assert time.monotonic() < until, running.service.said
                forward()

        secret.write_text("another secret, of 32 bytes or more")
        reload(good, "the configuration was read again")
        assert (status_of(old), status_of(new)) == (401, 200)
        # The service takes nothing from a configuration that is broken or that needs a restart.
        secret.write_text(SECRET)
        reload(good.replace("secrets", "secretz"), "unknown field `secretz`")
        assert "line 4" in running.service.said
        reload(good.replace("s1", "s2"), "needs a restart")
        assert (status_of(old), status_of(new)) == (401, 200)
        # A change of `silence_s` requires a new connection to the switch.
        reload(f"silence_s = 5\n{good}", "the configuration was read again")
        assert (status_of(old), status_of(new)) == (200, 401)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            forward()
        cid = running.client("cid")
        with opened(subscribe(cid, "cid", "ann")) as another:
            camera.send(rtp(60_000))
            assert received(another, 1) == [rtp(60_000)]
            assert received(screen, 1) == [rtp(60_000)]


def ready(running: Running) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", urlsplit(running.url).port)
    connection.request("GET", "/readyz")
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_a_drain_keeps_new_ones_out_and_nothing_else(running: Running) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    administrator = token(grants=ADMINISTRATOR)
    of_one = token(conference="c", grants=ADMINISTRATOR)
    assert "all conferences" in reprise("drain", running.url, "--token", of_one, status=1)
    wait_until(lambda: ready(running)[0] == 200, running)
    assert "draining" in reprise("drain", running.url, "--token", administrator)
    assert ready(running) == (503, "draining: no new conferences and participants\n")
    for new in (
        lambda: running.client("cid"),
        lambda: running.administrator.put_conference("d"),
    ):
        with pytest.raises(ProblemError) as refused:
            new()
        assert (refused.value.status, refused.value.kind) == (503, "urn:reprise:draining")
    ann.join("c", "ann", "Ann")
    running.administrator.put_conference("c", "a title")
    with opened(publish(ann, "ann")) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
        camera.send(rtp(1))
        assert received(screen, 1) == [rtp(1)]
    bob.leave("c", "bob")
    assert "not draining" in reprise("drain", running.url, "--off", "--token", administrator)
    running.client("cid")
    wait_until(lambda: ready(running)[0] == 200, running)


def test_a_backup_brings_media_back_without_a_new_sign_in(running: Running, tmp_path: Path) -> None:
    ann, bob = running.client("ann"), running.client("bob")
    administrator = token(grants=ADMINISTRATOR)
    file = tmp_path / "backup.jsonl"
    to = ("--token", administrator, "--to", file)
    with opened(publish(ann, "ann")) as camera, opened(subscribe(bob, "bob", "ann")) as screen:
        camera.send(rtp(1))
        assert received(screen, 1) == [rtp(1)]
        # The records are one conference, two participants and two sockets.
        assert "5 records" in reprise("backup", running.url, *to)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        words = ("restore", "--config", running.config, "--from", file)
        assert "another service uses" in reprise(*words, status=1)
        running.service.stop()
        running.switch.stop()
        assert "expected a store without records, found 5" in reprise(*words, status=1)
        running.store.unlink()
        assert "restored 5 records" in reprise(*words)
        text = file.read_text()
        file.write_text(text[:-30])
        assert "expected a record" in reprise(*words, "--replace", status=1)
        file.write_text(text.replace('"format":1', '"format":0', 1))
        assert "found format 0" in reprise(*words, "--replace", status=1)
        file.write_text(text)
        assert "restored 5 records" in reprise(*words, "--replace")
        running.switch.start()
        running.service.start()
        running.wait()
        wait_until(lambda: "the switch is whole" in running.service.said, running)
        wait_until(lambda: ready(running)[0] == 200, running)
        camera.send(rtp(2))
        assert received(screen, 1) == [rtp(2)]
        # The restored data of the sockets has the same keys as before, so the camera is signed in.
        assert camera.is_signed_in
        assert running.administrator.conference("c")["participants"].keys() == {"ann", "bob"}


def test_a_json_log_has_conference_and_participant_and_no_token(tmp_path: Path) -> None:
    with Running(tmp_path, top='log = "json"') as running:
        running.client("ann")
        ann = participant_token("c", "ann")
        wait_until(lambda: '"joined"' in running.service.said, running)
        said = running.service.said
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    joined = [line for line in lines if line.get("message") == "joined"]
    assert [(line["conference"], line["participant"]) for line in joined] == [("c", "ann")]
    assert ann not in said
    assert SECRET not in said
