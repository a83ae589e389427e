"""Tests that the systemd units' commands, with the units' user and capabilities, forward media."""

import json
import os
import signal
import socket
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest
from reprise_conference import Client, MediaSocket, ProblemError

from lab.addresses import SFU_IP, SFU_MAC
from lab.netns import SFU_INTERFACE, Star
from tests.packaging.debian_root import DebianRoot
from tests.packaging.units import Unit, read
from tests.service import running
from tests.service.running import LIMIT_S, Process, publish, received, rtp, subscribe

SERVICE_HOST, SENDER, RECEIVER = 1, 1, 2

Result = TypeVar("Result")


class Services:
    """Runs the switch and the conference service in a star: network namespaces of an SFU and hosts.

    The switch runs in the SFU's network namespace, the service on one of the hosts.
    """

    def __init__(self, root: DebianRoot, star: Star, logs: Path) -> None:
        self._root, self.star, self._logs = root, star, logs
        config = root.path / "etc/reprise/reprise.toml"
        own = '{ port = 1, ip = "127.0.0.1", mac = "02:00:7f:00:00:01" }'
        assert own in config.read_text()
        ours = f'{{ port = 1, ip = "{SFU_IP}", mac = "{SFU_MAC}" }}'
        config.write_text(config.read_text().replace(own, ours))
        ports = root.path / "etc/reprise/switch.conf"
        ports.write_text(ports.read_text().replace("1@udp:127.0.0.1:5004", f"1@{SFU_INTERFACE}"))
        # This socket plays the service manager, to which a unit with Type=notify reports.
        self._manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._manager.settimeout(LIMIT_S)
        run = os.open(root.path / "run", os.O_DIRECTORY)
        self._manager.bind(f"/proc/self/fd/{run}/notify")
        os.close(run)
        (root.path / "run/notify").chmod(0o666)
        self.switch = self._process("reprise-switch", star.sfu.command)
        self.service = self._process("reprise", star.host(SERVICE_HOST).command)
        self._secret = root.text("/etc/reprise/secret")

    def _process(self, name: str, within: Callable[[list[str]], list[str]]) -> Process:
        unit = read(self._root.path, f"{name}.service")
        self._make_folders(unit)
        return self._command(unit, within, unit.command, name, NOTIFY_SOCKET="/run/notify")

    def _command(
        self,
        unit: Unit,
        within: Callable[[list[str]], list[str]],
        words: list[str],
        log: str,
        **environment: object,
    ) -> Process:
        env = ["env", *(f"{name}={value}" for name, value in environment.items())]
        argv = within(self._root.command([*unit.as_its_user, *env, *words]))
        return Process(argv, self._logs / f"{log}.log")

    def close(self) -> None:
        self._manager.close()

    def told(self) -> str:
        """Receives the next message to the service manager."""
        return self._manager.recv(4_096).decode().strip()

    def replace_switch(self, pid: int) -> int:
        """Does what `systemctl reload reprise-switch` does if `pid` is the unit's main process.

        Returns the new main process.
        """
        unit = read(self._root.path, "reprise-switch.service")
        socket = {"NOTIFY_SOCKET": "/run/notify"} if unit.hears_reload else {}
        within = self.star.sfu.command
        reload = self._command(unit, within, unit.reload, "reload", MAINPID=pid, **socket)
        reload.start()
        # The old process ends when the new process has taken over. The old process's last message
        # is the id of the new process. The new process may have sent READY=1 before this; systemd
        # accepts its messages only from then on.
        while not (told := self.told()).startswith("MAINPID="):
            assert told == "READY=1"
        # `reload` ends when the old process is gone, that is, when its parent has waited for it.
        if pid == self.switch.pid:
            assert self.switch.wait() == 0, self.switch.said
        assert reload.wait() == 0, reload.said
        return int(told.removeprefix("MAINPID="))

    def _make_folders(self, unit: Unit) -> None:
        for folder, mode in unit.folders:
            owner = [f"--owner={unit.one('User')}", f"--group={unit.one('Group')}"]
            self._root.run("install", "--directory", f"--mode={mode}", *owner, folder)

    def client(self, **claims: object) -> Client:
        return Client("http://127.0.0.1:8080", running.token(self._secret, **claims))

    def call(self, request: Callable[[], Result]) -> Result:
        """Makes a request from the host on which the service listens."""
        return self.star.host(SERVICE_HOST).call(request)

    def participant(self, name: str) -> Client:
        grants = {"publish": ["video"], "max_kbps": 10_000, "subscribe": True}
        client = self.client(conference="c", sub=name, grants=grants)
        self.call(lambda: client.join("c", name))
        return client

    def wait(self) -> None:
        administrator = self.client(grants={"administer": True})
        until = time.monotonic() + LIMIT_S
        while True:
            try:
                self.call(lambda: administrator.put_conference("c"))
                # This request succeeds only when the switch has its program.
                with self.call(lambda: urllib.request.urlopen("http://127.0.0.1:8080/readyz")):
                    return
            except (OSError, ProblemError):
                assert time.monotonic() < until, self.service.said + self.switch.said
                time.sleep(0.05)


@pytest.fixture
def services(package: Path, root: DebianRoot, logs: Path) -> Iterator[Services]:
    root.install(package)
    with Star(2) as star:
        services = Services(root, star, logs)
        try:
            services.switch.start()
            services.service.start()
            services.wait()
            yield services
        finally:
            services.service.stop()
            services.switch.stop()
            services.close()


def capabilities(process: Process) -> dict[str, int]:
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    pairs = (line.split(":\t") for line in lines if line.startswith("Cap"))
    return {name: int(value, 16) for name, value in pairs}


def test_the_units_command_lines_forward_media(services: Services, root: DebianRoot) -> None:
    ann, bob = services.participant("ann"), services.participant("bob")
    camera = services.call(lambda: publish(ann, "ann"))
    screen = services.call(lambda: subscribe(bob, "bob", "ann"))
    star = services.star
    with (
        star.host(SENDER).call(lambda: running.opened(camera)) as sender,
        star.host(RECEIVER).call(lambda: running.opened(screen)) as receiver,
    ):
        packets = [rtp(number) for number in range(100)]
        for packet in packets:
            sender.send(packet)
        assert received(receiver, 100) == packets
        # A switch that is started again gets its whole state from the service, which kept running.
        services.switch.stop()
        services.switch.start()
        expect_forwarding(sender, receiver)
    # CAP_NET_RAW is number 13; the service has no capability at all.
    assert set(capabilities(services.switch).values()) <= {0, 1 << 13}
    assert set(capabilities(services.service).values()) == {0}
    socket = root.path / "run/reprise/switch.sock"
    assert socket.stat().st_mode & 0o777 == 0o660
    assert socket.parent.stat().st_mode & 0o777 == 0o750


def test_reloads_replace_the_switch_and_no_packet_is_lost(services: Services) -> None:
    ann, bob = services.participant("ann"), services.participant("bob")
    camera = services.call(lambda: publish(ann, "ann"))
    screen = services.call(lambda: subscribe(bob, "bob", "ann"))
    star = services.star
    assert services.told() == "READY=1"
    with (
        star.host(SENDER).call(lambda: running.opened(camera)) as sender,
        star.host(RECEIVER).call(lambda: running.opened(screen)) as receiver,
    ):
        numbers = range(6_000)

        def send() -> None:
            for number in numbers:
                sender.send(rtp(number))
                sender.receive(0.001)

        got: list[bytes] = []
        threads = [
            threading.Thread(target=send),
            threading.Thread(target=lambda: got.extend(received(receiver, len(numbers)))),
        ]
        for thread in threads:
            thread.start()
        # systemd starts only the first process itself; a process that has taken over must be able
        # to pass the switch on, too.
        assert services.switch.pid is not None
        new = services.replace_switch(services.switch.pid)
        try:
            new = services.replace_switch(new)
            for thread in threads:
                thread.join()
            assert got == [rtp(number) for number in numbers]
            expect_forwarding(sender, receiver)
        finally:
            os.kill(new, signal.SIGTERM)


def expect_forwarding(sender: MediaSocket, receiver: MediaSocket) -> None:
    until = time.monotonic() + LIMIT_S
    number = 1_000
    while time.monotonic() < until:
        number += 1
        sender.send(rtp(number))
        sender.receive(0.01)
        if received(receiver, 1, 0.05):
            return
    raise AssertionError("nothing is forwarded after the switch's restart")


def test_the_group_rules_the_switch_and_others_do_not(services: Services, root: DebianRoot) -> None:
    show = ["reprise", "pipeline", "show", "--switch", "unix:/run/reprise/switch.sock", "--json"]
    member = ["setpriv", "--reuid=nobody", "--regid=reprise", "--clear-groups", "--"]
    objects = json.loads(root.run(*member, *show))["objects"]
    assert "own_addresses" in {found["name"] for found in objects}
    stranger = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]
    assert "permission denied" in root.run(*stranger, *show, expected=1).lower()
