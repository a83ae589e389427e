"""Ordered multicast under load, while its parts are killed or stopped, and started again.

A part that is started again still has its state, has lost its state, or has an older copy of it; or
a part is started a second time while it runs. What happens is random, and depends on the seed in
the test's name. `REPRISE_AOM_SEQUENCES=100` runs 100 random sequences, `REPRISE_AOM_SEED=N` begins
with the seed N.

The test checks what all members deliver and what the switch sends: a number of an epoch has only
one content. Each member's numbers only grow. At the end all members deliver again.
"""

import json
import os
import random
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from lab.process import Child, ChildError, run
from lab.switch import READY_TIMEOUT_S
from tests.e2e.aom_group import packet_socket, udp_datagram
from tests.e2e.ordered import (
    AOM_HM,
    AOM_PK,
    GROUP_IP,
    MEMBER,
    MEMBER_UDP_PORT,
    SERVICE_IP,
    SIGNER,
    Ordered,
    ip_of,
    mac_of,
    ordered,
)

PATIENCE_S = 240.0
"""How long each wait may take. A member that is started again and again waits for a minute."""
SIZES = (1, 4, 5, 8, 64)
N_STEPS = 5
N_MEMBER_HOSTS_MAX = 16
MEMBERS = MEMBER.with_name("aom_members.py")
TAGGED, SIGNED = 2, 3


class Wire:
    """Captures what the switch sends to a host: no number of an epoch may have two digests."""

    def __init__(self, whole: Ordered, host: int) -> None:
        self.digests: dict[bytes, bytes] = {}
        self.twice: list[str] = []
        self._ended = threading.Event()
        self._socket = whole.hosts.hosts[host].call(lambda: packet_socket(0.1))
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()

    def _read(self) -> None:
        while not self._ended.is_set():
            try:
                packet = self._socket.recv(1 << 16)
            except TimeoutError:
                continue
            udp_port, datagram = udp_datagram(packet)
            is_of_sequencer = len(datagram) >= 20 and datagram[0] in (TAGGED, SIGNED)
            if udp_port < MEMBER_UDP_PORT or not is_of_sequencer:
                continue
            # Byte 5, the shard, is left out.
            place, digest = datagram[:5] + datagram[6:12], datagram[12:20]
            if self.digests.setdefault(place, digest) != digest:
                self.twice.append(place.hex())


class Life:
    """A group, and everything that can happen to it."""

    def __init__(self, whole: Ordered, rng: random.Random, kind: "Kind", key: Path | None) -> None:
        self.whole, self.rng, self.kind, self.key = whole, rng, kind, key
        self.hosts = range(1, min(kind.n_members, N_MEMBER_HOSTS_MAX) + 1)
        self.files: dict[int, list[Path]] = {}
        self.members: list[Child] = []
        self.running: dict[int, list[Child]] = {}
        self.n_folders = 0
        self.backup_of_switch: bytes | None = None
        self.backup_of_service: Path | None = None

    @property
    def switch_state(self) -> Path:
        return self.whole.logs / "switch-state"

    def populate(self) -> None:
        kind = self.kind
        self.files = {host: [] for host in self.hosts}
        for number in range(kind.n_members):
            host = 1 + number % len(self.hosts)
            udp_port = MEMBER_UDP_PORT + number // len(self.hosts)
            file = self.whole.logs / f"{self.n_folders}-m{number}.member"
            words = ["--ip", ip_of(host), "--mac", mac_of(host)]
            words += ["--port", str(host), "--udp-port", str(udp_port), "--output", str(file)]
            self.aom("member", "add", "counter", f"m{number}", *words)
            self.files[host].append(file)
        for host in self.hosts:
            self.start_members(host)
        if kind.byzantine and kind.n_members < 4:
            self.until("all are connected", self._all_connected)
            self.aom("epoch", "advance", "counter")

    def aom(self, *words: str) -> None:
        """Repeats a command until the service, which may still be connecting, has done it."""
        until_s = time.monotonic() + PATIENCE_S
        while True:
            try:
                self.whole.aom(*words)
                return
            except ChildError:
                if time.monotonic() > until_s:
                    raise
                time.sleep(0.05)

    def start_members(self, host: int) -> None:
        """Starts the members of a host in one process."""
        python = self.whole.python(MEMBERS, *map(str, self.files[host]))
        child = self.whole.start(f"members{host}", python, host)
        self.members.append(child)
        self.running.setdefault(host, []).append(child)

    def end(self, name: str) -> None:
        """Ends one of the programs by SIGKILL or by SIGTERM."""
        self._end(self.whole.processes.pop(name))

    def _end(self, child: Child) -> None:
        if self.rng.random() < 0.5:
            child.kill()
        else:
            child.stop()

    def until(self, what: str, look: Callable[[], bool]) -> None:
        """Waits until `look` returns True; fails if it never does."""
        until_s = time.monotonic() + PATIENCE_S
        while not look():
            assert time.monotonic() < until_s, f"{what}: {self.whole.group()}"
            time.sleep(0.05)

    def _all_connected(self) -> bool:
        return all(member["is_connected"] for member in self.whole.group()["members"])

    def all_receive(self) -> bool:
        """Whether the group is active and all members have its epoch."""
        return self.whole.n_receiving() == self.kind.n_members

    # Each of the following methods disturbs a part of the group, such as the switch, and returns
    # what became of the part's state: kept, lost, older, or twice if two copies of the part ran.

    def restart_switch(self) -> str:
        """Restarts the switch with its state file, with none, or with an older one."""
        state = self.rng.choice(["kept", "kept", "lost", "older"])
        self.end("switch")
        if state == "older" and self.backup_of_switch is not None:
            self.switch_state.unlink()
            self.switch_state.write_bytes(self.backup_of_switch)
        elif state == "lost":
            self.switch_state.unlink()
        elif self.backup_of_switch is None:
            self.backup_of_switch = self.switch_state.read_bytes()
        self.whole.start_switch()
        return state

    def restart_service(self) -> str:
        """Restarts the service, or starts a second service.

        A restarted service has its folder, a new folder, or an older copy of its folder.
        """
        whole = self.whole
        state = self.rng.choice(["kept", "kept", "lost", "older", "twice"])
        if state == "twice":
            self.until("before a second service", self.all_receive)
            # Only one of two services can be primary; the service that comes late must end. The
            # first service can be late if the switch was restarted and the first service has not
            # noticed this yet.
            double = self._copy_of_folder()
            pair = {
                "service": whole.processes["service"],
                "second": whole.start("second", whole.service(double, f"{SERVICE_IP}:7444")),
            }
            self.until("one of two services ends", lambda: bool(_ended(pair)))
            late = _ended(pair)[0]
            assert pair[late].exit_code != 0
            assert "another controller" in pair[late].log_text(), pair[late].log_text()
            self.end("second" if late == "service" else "service")
            self._replace_folder(double)
        else:
            self.end("service")
        if state == "older" and self.backup_of_service is not None:
            self._replace_folder(self.backup_of_service)
        elif state == "lost":
            self._lose_folder()
            return state
        elif self.backup_of_service is None:
            self.backup_of_service = self._copy_of_folder()
        whole.start_service()
        return state

    def _copy_of_folder(self) -> Path:
        self.n_folders += 1
        copy = self.whole.logs / f"copy-{self.n_folders}"
        copy.mkdir(mode=0o700)
        for name in ("state.json", "authority.pem"):
            shutil.copy(self.whole.state / name, copy / name)
        return copy

    def _replace_folder(self, copy: Path) -> None:
        for name in ("state.json", "authority.pem"):
            shutil.copy(copy / name, self.whole.state / name)

    def _lose_folder(self) -> None:
        """Deletes the service's folder. Then everything is added again, with new member files."""
        shutil.rmtree(self.whole.state)
        for host in self.hosts:
            self._end_members(host)
        self.n_folders += 1
        self.backup_of_service = None
        self.whole.start_service()
        self.kind.add_group(self.whole, self.key)
        self.populate()

    def restart_signer(self) -> str:
        """Restarts the signer, which then does not know what it has signed before."""
        if self.key is None:
            return self.restart_switch()
        self.end("signer")
        self.whole.start_signer(len(self.whole.hosts.hosts), self.key)
        return "lost"

    def restart_members(self) -> str:
        """Restarts the members of a host, or starts them a second time with the same files."""
        host = self.rng.choice(self.hosts)
        if self.rng.random() < 0.3:
            # The process that joins last stays. If several processes start at once, any of them can
            # be the last.
            self.start_members(host)
            return "twice"
        self._end_members(host)
        self.start_members(host)
        return "kept"

    def _end_members(self, host: int) -> None:
        for child in self.running.pop(host, []):
            if child.exit_code is None:
                self._end(child)


def _ended(processes: dict[str, Child]) -> list[str]:
    return [name for name, child in processes.items() if child.exit_code is not None]


class Kind:
    def __init__(self, n_members: int, *, signed: bool, byzantine: bool) -> None:
        self.n_members, self.signed, self.byzantine = n_members, signed, byzantine

    def __str__(self) -> str:
        signed = "signed" if self.signed else "tagged"
        byzantine = ", Byzantine" if self.byzantine else ""
        return f"{self.n_members} members, {signed}{byzantine}"

    def options(self, signer_port: int, key: Path | None) -> list[str]:
        options = ["--byzantine"] if self.byzantine else []
        if key is not None:
            public = run([str(SIGNER), "key", "public", str(key)]).strip()
            signer = ["--signer-port", str(signer_port), "--signer-key", public]
            options += ["--variant", "signed", *signer]
        return options

    def add_group(self, whole: Ordered, key: Path | None) -> None:
        """Adds the group again after the service has lost its folder."""
        options = self.options(len(whole.hosts.hosts), key)
        whole.aom("group", "add", "counter", "--address", GROUP_IP, *options)

    def rate(self) -> str:
        """Returns how many requests a second the machine can handle beside other work."""
        if self.n_members == 64:
            return "1" if self.byzantine else "4"
        return "20" if self.byzantine else "100"


def seeds() -> list[int]:
    """The seeds to run: a few, or as many as the environment variable says."""
    first = int(os.environ.get("REPRISE_AOM_SEED", "1"))
    return list(range(first, first + int(os.environ.get("REPRISE_AOM_SEQUENCES", "4"))))


def kind_of(seed: int) -> Kind:
    """The kind of group for a seed; successive seeds go through all kinds."""
    kinds = [
        Kind(n_members, signed=signed, byzantine=byzantine)
        for n_members in SIZES
        for signed in (False, True)
        for byzantine in (False, True)
    ]
    # The step of 7 makes the groups of successive seeds differ.
    return kinds[(seed * 7) % len(kinds)]


@pytest.mark.parametrize("seed", seeds())
def test_no_number_has_two_contents_whatever_is_started_anew(
    namespaces: None, logs: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    kind, rng = kind_of(seed), random.Random(seed)
    n_hosts = min(kind.n_members, N_MEMBER_HOSTS_MAX) + 2
    sender, signer = n_hosts - 1, n_hosts
    key = logs / "signer.key" if kind.signed else None
    if key is not None:
        run([str(SIGNER), "key", "new", str(key)])
    state = ["--state", str(logs / "switch-state")]
    program = AOM_PK if kind.signed else AOM_HM
    with (
        ordered(logs, n_hosts, program, kind.options(signer, key), state) as whole,
        ExitStack() as stack,
    ):
        wire = Wire(whole, 1)
        stack.callback(wire.close)
        if key is not None:
            whole.start_signer(signer, key)
        life = Life(whole, rng, kind, key)
        life.populate()
        life.until("all receive", life.all_receive)
        variant = ["signed"] if kind.signed else []
        whole.start_sender(sender, "load", "1000000", kind.rate(), *variant)
        told = [f"seed {seed}: {kind}"]
        happens = [
            life.restart_switch,
            life.restart_service,
            life.restart_signer,
            life.restart_members,
        ]
        for _ in range(N_STEPS):
            happen = rng.choice(happens)
            told.append(f"{happen.__name__}: {happen()}")
            # Sometimes the next step comes before the group has recovered from this one.
            if rng.random() < 0.6:
                life.until("; ".join(told), life.all_receive)
            else:
                time.sleep(rng.random())
        life.until("; ".join(told), life.all_receive)
        with capsys.disabled():
            print("\n" + "; ".join(told))
        whole.processes["sender" + str(sender)].kill()
        assert_all_deliver(life, sender, "; ".join(told))
        for child in life.members:
            if child.exit_code is None:
                child.finish(PATIENCE_S)
        assert not wire.twice, "; ".join(told)
        assert wire.digests
        assert_agreed(life, "; ".join(told))


def assert_all_deliver(life: Life, sender: int, told: str) -> None:
    """All members deliver what is sent after everything has recovered."""
    variant = ["signed"] if life.kind.signed else []
    names = {f"m{number}" for number in range(life.kind.n_members)}
    for attempt in range(20):
        who = f"final{attempt}"
        life.whole.start_sender(sender, who, "5", "10", *variant).expect_success(READY_TIMEOUT_S)
        until_s = time.monotonic() + 10.0
        while time.monotonic() < until_s:
            delivered = {
                name.split("-")[1]
                for child in life.members
                for name, _, _, kind, text in events(child)
                if kind == "message" and text.startswith("final")
            }
            if delivered == names:
                return
            time.sleep(0.5)
    raise AssertionError(f"{told}: {names - delivered} deliver nothing")


def events(child: Child) -> list[tuple[str, int, int, str, str]]:
    """The events of a process' members. A killed process' last line may be cut; it is left out."""
    lines = [line for line in child.log_text().splitlines(keepends=True) if line.startswith("[")]
    return [tuple(json.loads(line)) for line in lines if line.endswith("]\n")]


def assert_agreed(life: Life, told: str) -> None:
    """No two members, and no two processes of a member, have different messages for a number."""
    agreed: dict[tuple[int, int], str] = {}
    for child in life.members:
        places: dict[str, list[tuple[int, int]]] = {}
        for name, epoch, number, kind, text in events(child):
            assert kind != "evidence", f"{told}: {name} {text}"
            if kind == "message":
                found = agreed.setdefault((epoch, number), text)
                assert found == text, f"{told}: {epoch}, {number}: {found!r} and {text!r}"
            if kind in ("message", "drop"):
                places.setdefault(name, []).append((epoch, number))
        for name, of_member in places.items():
            assert of_member == sorted(set(of_member)), f"{told}: {name} goes back"
    assert agreed
