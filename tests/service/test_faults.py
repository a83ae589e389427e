"""Participants act at random while processes are killed and connections are cut.

A history of everything is judged afterwards (tests/service/history.py).

Each fault is made once, or as often as `REPRISE_FAULTS` says. The test goes on for at least
`REPRISE_FAULTS_S` seconds.
"""

import os
import random
import signal
import statistics
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from reprise_conference import Client

from tests.needs import need
from tests.service.actors import CONFERENCES, Somebody
from tests.service.crowd import Crowd, remove_all
from tests.service.history import Fault, History, Verdict
from tests.service.ledger import audit, get
from tests.service.relay import Relay
from tests.service.running import Process
from tests.service.site import FAKETIME, Service, Site, lacks

N_TIMES = int(os.environ.get("REPRISE_FAULTS", "1"))
SECONDS = float(os.environ.get("REPRISE_FAULTS_S", "0"))
SETTLE_S = 0.15
"""The most time that a packet takes from sender to receiver, on a machine that others use too."""
RESTART_S = (0.0, 1.5)
CUT_S = (0.3, 4.0)
BETWEEN_S = (0.3, 1.5)
WAITS_FOR_SWITCH_S = 1.2
JUMP_S = 1_800
"""By how many seconds a clock is moved: fewer than those for which tokens are valid."""
AUDIT_EVERY_S = 60.0
TIMED_FROM = 10
"""Only a long run judges how long something takes: a busy machine may delay a single fault."""
WHOLE_S = 1.0
"""The median time in which a switch that was killed has all its state again."""
MEMORY_MIB = 64
"""By how much the memory of a process may grow in all, after its first minute."""


class Faults:
    """Makes faults; records each fault in the history when its effects have ended."""

    def __init__(self, site: Site, chance: random.Random) -> None:
        self._site = site
        self._random = chance
        self.whole_again_s: list[float] = []
        """The times from a switch's return until it had all its state again."""

    def kinds(self) -> dict[str, Callable[[], float | None]]:
        """For each kind of fault, a function that makes the fault.

        The function returns the time until which packets may have been lost because of the fault,
        or None if no packet may be lost.
        """
        kinds: dict[str, Callable[[], float | None]] = {
            "switch killed": self._switch_killed,
            "service killed": self._service_killed,
            "service upgraded": self._service_upgraded,
            "switch upgraded": self._switch_upgraded,
            "switch cut off": lambda: self._cut(lambda leader: [leader.to_switch]),
        }
        if self._site.etcd:
            kinds["standby killed"] = self._standby_killed
            kinds["etcd node killed"] = self._etcd_node_killed
            kinds["etcd leader killed"] = self._etcd_leader_killed
            kinds["etcd cut off"] = lambda: self._cut(lambda leader: list(leader.to_etcd))
        else:
            kinds["disk full"] = self._disk_full
        if FAKETIME.exists():
            kinds["clock jumps"] = self._clock_jumps
        return kinds

    def make(self, kind: str, history: History) -> None:
        begin_s = time.monotonic()
        loses_until_s = self.kinds()[kind]()
        history.faults.append(Fault(kind, begin_s, self._ready_since(), loses_until_s))

    def _ready_since(self) -> float:
        """Waits until a service has been ready for a while; returns since when it has been ready.

        A service is still ready while a request waits for the switch, which lasts up to a second.
        """
        self._site.leader()
        since_s = time.monotonic()
        while time.monotonic() - since_s < WAITS_FOR_SWITCH_S:
            time.sleep(0.05)
            if not any(service.is_ready() for service in self._site.services):
                self._site.leader()
                since_s = time.monotonic()
        return since_s

    def _sleep(self, bounds_s: tuple[float, float]) -> None:
        time.sleep(self._random.uniform(*bounds_s))

    def _switch_killed(self) -> float:
        site = self._site
        site.switch.stop(signal.SIGKILL)
        # Until the services have noticed that the switch is gone, they say that they are ready.
        site.wait(lambda: not any(service.is_ready() for service in site.services))
        self._sleep(RESTART_S)
        n_ready = site.switch.said.count("ready: ")
        site.switch.start()
        site.wait(lambda: site.switch.said.count("ready: ") > n_ready)
        back_s = time.monotonic()
        site.leader()
        self.whole_again_s.append(time.monotonic() - back_s)
        return time.monotonic() + SETTLE_S

    def _service_killed(self) -> None:
        leader = self._site.leader()
        leader.process.stop(signal.SIGKILL)
        self._sleep(RESTART_S)
        leader.process.start()

    def _service_upgraded(self) -> None:
        leader = self._site.leader()
        leader.process.stop(signal.SIGTERM)
        leader.process.start()

    def _switch_upgraded(self) -> None:
        # On a busy machine the old switch may give up waiting for the new switch, and keep running.
        # Then the upgrade is tried again.
        self._site.wait(lambda: self._site.switch.replace("--takeover"))

    def _standby_killed(self) -> None:
        leader = self._site.leader()
        standby = next(one for one in self._site.services if one is not leader)
        standby.process.stop(signal.SIGKILL)
        self._sleep(RESTART_S)
        standby.process.start()

    def _etcd_node_killed(self) -> None:
        self._kill_etcd(self._random.choice(self._site.etcd))

    def _etcd_leader_killed(self) -> None:
        self._kill_etcd(self._site.etcd_leader())

    def _kill_etcd(self, node: Process) -> None:
        node.stop(signal.SIGKILL)
        self._sleep(CUT_S)
        node.start()
        # Another node may be killed only when this node has caught up.
        time.sleep(2.0)

    def _cut(self, chosen: Callable[[Service], list[Relay]]) -> None:
        relays = chosen(self._site.leader())
        for relay in relays:
            relay.cut()
        self._sleep(CUT_S)
        for relay in relays:
            relay.mend()

    def _disk_full(self) -> None:
        with self._site.full_disk():
            self._sleep(CUT_S)

    def _clock_jumps(self) -> None:
        clock = self._site.leader().clock
        jump_s = self._random.choice((JUMP_S, -JUMP_S))
        clock.write_text(f"{jump_s:+d}\n")
        self._sleep(CUT_S)
        clock.write_text("+0\n")


@pytest.mark.alone
@pytest.mark.parametrize("store", ["file", "etcd"])
def test_who_stays_loses_nothing_but_what_a_killed_switch_costs(
    store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_etcd = store == "etcd"
    need(lacks(with_etcd=with_etcd))
    seed = int(os.environ.get("REPRISE_SEED", str(random.randrange(1 << 32))))
    site, history, chance = Site(tmp_path, with_etcd=with_etcd), History(), random.Random(seed)
    faults = Faults(site, chance)
    until = threading.Event()
    with site.running():
        everybody = people(site, chance)
        threads = [
            threading.Thread(target=somebody.run, args=(history, until)) for somebody in everybody
        ]
        for thread in threads:
            thread.start()
        crowd = Crowd(site, tmp_path / "secret")
        crowd.start()
        began_s = time.monotonic()
        memory = Memory(site)
        todo = [kind for kind in faults.kinds() for _ in range(N_TIMES)]
        chance.shuffle(todo)
        audits = Audits(site, crowd, everybody, history)
        try:
            time.sleep(2.0)
            while todo or time.monotonic() - began_s < SECONDS:
                kind = todo.pop() if todo else chance.choice(list(faults.kinds()))
                faults.make(kind, history)
                memory.look()
                time.sleep(chance.uniform(*BETWEEN_S))
                audits.make_if_due()
            audits.make()
        finally:
            crowd.close()
            until.set()
            for thread in threads:
                thread.join()
        wrong = at_the_end(site, everybody)
        verdict = history.judge(SETTLE_S)
        with capsys.disabled():
            what = f"store {store}, REPRISE_SEED={seed}"
            print(report(what, history, verdict, faults, everybody))
            print(f"the counters added up {audits.n_right} times of {audits.n}; {crowd.totals}")
        everything = [*verdict.wrong[:30], *wrong, *memory.wrong(), *audits.wrong, *crowd.wrong()]
        if (
            N_TIMES >= TIMED_FROM
            and (median_s := statistics.median(faults.whole_again_s)) > WHOLE_S
        ):
            everything.append(f"a switch that is back is whole after {median_s:.2f} s")
        assert not everything, "\n".join([*everything, *map(str, history.faults), site.said()])
    assert verdict.n_due > 1_000


def people(site: Site, chance: random.Random) -> list[Somebody]:
    everybody = []
    for conference, names in CONFERENCES.items():
        site.ask(partial(put, conference))
        everybody += [
            Somebody(site.urls, conference, name, names, chance.randrange(1 << 32))
            for name in names
        ]
    return everybody


def put(conference: str, client: Client) -> dict[str, Any]:
    return client.put_conference(conference)


def at_the_end(site: Site, everybody: list[Somebody]) -> list[str]:
    """Returns how the service's state differs from its answers to the participants.

    Nobody makes requests any more.
    """
    wrong = []
    for conference in CONFERENCES:
        there = site.ask(partial(get, conference))
        for somebody in everybody:
            if somebody.conference == conference and (differs := somebody.difference(there)):
                wrong.append(f"at the end, {somebody.name}: {differs}")
    return wrong


class Audits:
    """Checks of the counters (tests/service/ledger.py), between faults."""

    def __init__(
        self, site: Site, crowd: Crowd, everybody: list[Somebody], history: History
    ) -> None:
        self._site, self._crowd, self._everybody, self._history = site, crowd, everybody, history
        self._last_s = time.monotonic()
        self.wrong: list[str] = []
        self.n, self.n_right = 0, 0

    def make_if_due(self) -> None:
        if time.monotonic() - self._last_s > AUDIT_EVERY_S:
            self.make()

    def make(self) -> None:
        with self._crowd.between:
            remove_all(self._site)
            wrong = audit(self._site, self._everybody, self._history)
        self._last_s = time.monotonic()
        self.n += 1
        self.n_right += not wrong
        self.wrong += wrong


class Memory:
    """The resident memory of the processes over time; a restarted process is measured anew."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._first: dict[int, tuple[float, int]] = {}
        self._last: dict[int, int] = {}

    def look(self) -> None:
        for process in (self._site.switch, *(one.process for one in self._site.services)):
            pid = process.pid
            if pid is None or (resident := resident_kib(pid)) is None:
                continue
            now_s = time.monotonic()
            first_s, _ = self._first.setdefault(pid, (now_s, resident))
            if now_s - first_s < 60:
                self._first[pid] = (first_s, resident)
            self._last[pid] = resident

    def wrong(self) -> list[str]:
        grown = {pid: last - self._first[pid][1] for pid, last in self._last.items()}
        return [
            f"process {pid} has grown by {kib / 1024:.0f} MiB"
            for pid, kib in grown.items()
            if kib > MEMORY_MIB * 1024
        ]


def resident_kib(pid: int) -> int | None:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    lines = (line.split() for line in text.splitlines() if line.startswith("VmRSS:"))
    return next((int(words[1]) for words in lines), None)


def report(
    what: str,
    history: History,
    verdict: Verdict,
    faults: Faults,
    everybody: list[Somebody],
) -> str:
    lines = [
        "",
        f"{what}: {len(history.faults)} faults, "
        f"{sum(one.n_requests for one in everybody)} requests, {verdict.n_due} copies due, "
        f"{len(verdict.wrong)} things wrong",
        f"{'fault':20} {'times':>5} {'longest, s':>10} {'copies lost':>11} {'longest gap, s':>14}",
    ]
    for kind in faults.kinds():
        of_kind = [fault for fault in history.faults if fault.kind == kind]
        longest_s = max((fault.end_s - fault.begin_s for fault in of_kind), default=0.0)
        lines.append(
            f"{kind:20} {len(of_kind):5} {longest_s:10.2f} {verdict.n_lost[kind]:11} "
            f"{verdict.outage_s[kind]:14.2f}"
        )
    if whole := faults.whole_again_s:
        median_s, longest_s = statistics.median(whole), max(whole)
        lines.append(f"switch back to whole: median {median_s:.2f} s, longest {longest_s:.2f} s")
    return "\n".join(lines)
