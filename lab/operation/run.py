"""Operates a switch at random for a while and has the oracle judge all of it."""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from lab.addresses import SFU_PORT, SFU_UDP_PORT, ip_of
from lab.bench.counters import METRICS_ADDRESS, Counters, read_metrics
from lab.netns import SFU_INTERFACE
from lab.operation.changes import OTHER_UDP_PORT, Apply, Busy, Change, Choices
from lab.operation.endpoints import FLOOD_SEQUENCE, Config, Endpoints
from lab.operation.flood import KINDS
from lab.operation.oracle import IN_FLIGHT_NS, SETTLED_NS, Disturbance, Due, Oracle
from lab.operation.site import Site
from lab.operation.state import Conference, Pair, Viewer, differences, parse_show
from lab.process import Child, ChildError, dying_with_parent
from lab.switch import (
    GRPC_ADDRESS,
    READY_TIMEOUT_S,
    RELEASE,
    REPLICATION_PROGRAM,
    SWITCH,
    require_build,
)

REPRISE = RELEASE / "reprise"
COMMAND_TIMEOUT_S = 60.0
N_HOSTS = 10
N_PRESENTERS = 5
N_GROUPS = 4
RATE_PPS = 40.0
PAYLOAD_BYTES = 200
ADDRESSES = (100, 101, 102)
COMMANDS_AT_ONCE = 4
FLOOD_FRAMES = 20_000
LINK_DOWN_S = 0.3
REBIND_TIMEOUT_S = 10.0
PORT_LOST = "reprise_port_lost_events_total"
PORT_LINK = "reprise_port_link"
EXPORT_EVERY = 10
KILLED_AFTER_S = 0.02
"""On average: a command takes 10 to 50 ms."""
VIOLATIONS_MAX = 50
PORT_REASONS = ("rx", "tx", "egress_queue_full", "recirculation_queue_full", "no_room")
"""Losses that are no decision of the P4 program."""


@dataclass(slots=True)
class Running:
    """A command that was started."""

    change: Change
    argv: list[str]
    process: subprocess.Popen[str]
    affected: set[Pair]
    kill_at_s: float | None

    def is_killed_by(self, now_s: float) -> bool:
        """Whether its time has come."""
        return self.kill_at_s is not None and now_s >= self.kill_at_s


@dataclass(slots=True)
class Tally:
    """What was done."""

    actions: Counter[str] = field(default_factory=Counter)
    commands: int = 0
    killed: int = 0


class Operation:
    """One run: a site, a switch, everybody's sockets, an oracle, and what is believed to hold."""

    def __init__(
        self, folder: Path, program: Path, seed: int, *, switch_options: Sequence[str] = ()
    ) -> None:
        require_build(SWITCH, REPRISE)
        self.folder = folder
        self.program = program
        self.switch_options = list(switch_options)
        self.choose = random.Random(seed)
        self.oracle = Oracle()
        self.tally = Tally()
        self.log = (folder / "actions.txt").open("w")
        self.site = Site(N_HOSTS)
        self.model = Conference(ADDRESSES[0])
        self.possible: list[Conference] = []
        """States that may be in force, beside the model, since commands were killed."""
        self.unresolved: set[Pair] = set()
        self.exported = self.model
        self.n_switches = 0
        is_replication = program == REPLICATION_PROGRAM
        udp_ports = [SFU_UDP_PORT, OTHER_UDP_PORT] if is_replication else [SFU_UDP_PORT]
        self.choices = Choices(
            groups=range(1, N_GROUPS + 1),
            presenters=range(1, N_PRESENTERS + 1),
            viewers=[Viewer(n, port) for n in range(1, N_HOSTS + 1) for port in udp_ports],
            addresses=ADDRESSES,
            has_ports=is_replication,
        )
        self.udp_ports = udp_ports
        self.stack = ExitStack()
        self.switch: Child

    # Coming and going.

    def __enter__(self) -> Self:
        self.stack.enter_context(self.site)
        self.stack.callback(self.log.close)
        hosts = range(1, N_HOSTS + 1)
        self.endpoints = Endpoints(
            Config(
                namespaces={str(n): str(self.site.host(n).path) for n in hosts},
                ips={str(n): ip_of(n) for n in hosts},
                presenters=list(self.choices.presenters),
                udp_ports=self.udp_ports,
                rate_pps=RATE_PPS,
                payload_bytes=PAYLOAD_BYTES,
                sfu_ip=ip_of(self.model.sfu),
                sent=str(self.folder / "sent.bin"),
                received=str(self.folder / "received.bin"),
            ),
            self.folder,
        )
        self.stack.callback(self.endpoints.child.stop)
        self.start_switch()
        # Not its method: by then it is another switch.
        self.stack.callback(self._stop_switch)
        self.follow_address()
        self.command("address", "set", "--port", "1", *self._address_options())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stack.close()

    def _stop_switch(self) -> None:
        self.switch.stop()

    def _address_options(self) -> list[str]:
        document = self.model.document(port=SFU_PORT)["sfu"]
        return ["--ip", document["ip"], "--mac", document["mac"]]

    def start_switch(self) -> None:
        """A new switch, empty but for its program."""
        self.n_switches += 1
        argv = [
            *(str(SWITCH), "-i", f"{SFU_PORT}@{SFU_INTERFACE}", "--grpc", GRPC_ADDRESS),
            *("--metrics", METRICS_ADDRESS, *self.switch_options, str(self.program)),
        ]
        self.switch = self.site.sfu.start(argv, self.folder / f"switch-{self.n_switches}.log")
        self.switch.wait_for_line("ready:", READY_TIMEOUT_S)

    def follow_address(self) -> None:
        """Hosts know the SFU's address and send there."""
        self.site.know_sfu(self.model.sfu)
        self.endpoints.send_to(ip_of(self.model.sfu))

    # Commands.

    def argv(self, *arguments: str) -> list[str]:
        """`reprise` beside the switch."""
        return self.site.sfu.command([str(REPRISE), "--switch", GRPC_ADDRESS, *arguments])

    def command(self, *arguments: str) -> str:
        """A command that changes nothing the oracle knows of; its output. It must succeed."""
        done = subprocess.run(
            dying_with_parent(self.argv(*arguments)),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        self.tally.commands += 1
        if done.returncode != 0:
            self.fail(f"`reprise {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout

    def fail(self, what: str) -> None:
        """A violation that no packet shows."""
        self.note(f"VIOLATION {what}")
        self.oracle.fail(time.monotonic_ns(), what)

    def note(self, what: str) -> None:
        """A line of the log of actions."""
        self.log.write(f"{time.monotonic_ns() / 1e9:.3f} {what}\n")
        self.log.flush()

    def change_at_random(self, n_at_once: int, *, may_kill: bool) -> None:
        """Runs so many commands at once, some of which may be killed on their way."""
        changes: list[Change] = []
        busy = Busy()
        while len(changes) < n_at_once:
            change = self.choices.change(self.model, self.choose, busy)
            if change is None or (changes and change.runs_alone):
                break
            changes.append(change)
            if change.runs_alone:
                break
            busy.add(change, self.model)
        if changes:
            self.run_changes(changes, may_kill=may_kill)

    def run_changes(self, changes: Sequence[Change], *, may_kill: bool) -> None:
        """Starts all, waits for all, and draws the conclusions."""
        before = self.model
        moved = any(change.after(before).sfu != before.sfu for change in changes)
        disturbance = self.disturb("the SFU's address changes") if moved else None
        running = [self._start(change, may_kill=may_kill) for change in changes]
        killed = self._wait(running)
        for one in running:
            if one not in killed:
                one.change.apply(self.model)
        if killed:
            self.unresolved |= set().union(*(one.affected for one in killed))
            after = self.model
            self.possible.append(after)
            # Any of those that were killed may have been done.
            for one in killed:
                self.possible += [one.change.after(state) for state in list(self.possible)]
            self.resolve()
        elif moved:
            self.follow_address()
        if disturbance is not None:
            self.calm(disturbance)
        self._settle(set().union(*(one.affected for one in running)))

    def _start(self, change: Change, *, may_kill: bool) -> Running:
        affected = change.affected(self.model)
        self.oracle.mark(time.monotonic_ns(), affected, Due.MAY)
        argv = change.arguments(self.folder)
        kill_at_s = None
        if may_kill and self.choose.random() < 0.6:
            kill_at_s = time.monotonic() + self.choose.expovariate(1 / KILLED_AFTER_S)
        self.note(f"run {argv} kill {kill_at_s}")
        self.tally.commands += 1
        process = subprocess.Popen(
            dying_with_parent(self.argv(*argv)),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        return Running(change, argv, process, affected, kill_at_s)

    def _wait(self, running: Sequence[Running]) -> list[Running]:
        """The commands that were killed before their end."""
        killed: list[Running] = []
        waiting = list(running)
        deadline_s = time.monotonic() + COMMAND_TIMEOUT_S
        while waiting:
            now_s = time.monotonic()
            for one in list(waiting):
                if one.process.poll() is not None:
                    waiting.remove(one)
                elif one.is_killed_by(now_s):
                    one.process.send_signal(signal.SIGKILL)
                    one.process.wait()
                    waiting.remove(one)
                    killed.append(one)
                    self.tally.killed += 1
                elif now_s > deadline_s:
                    self.fail(f"`reprise {' '.join(one.argv)}` has not ended in time")
                    one.process.kill()
            time.sleep(0.002)
        for one in running:
            output, errors = one.process.communicate()
            if one not in killed and one.process.returncode != 0:
                self.fail(
                    f"`reprise {' '.join(one.argv)}` failed: {errors.strip()} {output.strip()}"
                )
                killed.append(one)
        return killed

    def resolve(self) -> None:
        """After a kill: the next command must succeed; then what holds must be one of what may."""
        if self.choose.random() < 0.5:
            # Any command has to go on from the state that was left, also one that changes it.
            target = self.choose.choice(self.possible)
            change = Apply(target.copy())
            self.note("go on: apply one of the possible states")
            for state in self.possible:
                affected = change.affected(state)
                self.unresolved |= affected
                self.oracle.mark(time.monotonic_ns(), affected, Due.MAY)
            self.command(*change.arguments(self.folder))
            self.possible = [target]
        shown = self.show()
        if shown is None:
            return
        for difference in differences(shown, self.possible):
            self.fail(f"after a command was killed {difference}")
        self.model = shown
        self.possible = []
        self.follow_address()
        self._settle(self.unresolved)
        self.unresolved = set()

    def show(self) -> Conference | None:
        """What `reprise show` says, or None (and a violation) if it says nothing."""
        said = self.command("show", "--json")
        try:
            return parse_show(json.loads(said))
        except (ValueError, KeyError, TypeError) as error:
            self.fail(f"`reprise show --json` cannot be read: {error!r}: {said[:300]}")
            return None

    def _settle(self, pairs: set[Pair]) -> None:
        """What holds for these pairs is what the model says."""
        now_ns = time.monotonic_ns()
        served = self.model.pairs()
        self.oracle.mark(now_ns, pairs & served, Due.MUST)
        self.oracle.mark(now_ns, pairs - served, Due.MUST_NOT)

    def check_state(self) -> None:
        """The switch's state is the model's."""
        if (shown := self.show()) is not None:
            for difference in differences(shown, [self.model]):
                self.fail(f"in calm {difference}")

    # What goes wrong around it.

    def disturb(self, what: str, hosts: Sequence[int] | None = None) -> Disturbance:
        """From now on copies may be missing."""
        self.note(f"disturb: {what} {hosts or ''}")
        return self.oracle.disturb(time.monotonic_ns(), what, hosts)

    def calm(self, disturbance: Disturbance) -> None:
        """From now on no longer."""
        disturbance.over_ns = time.monotonic_ns()
        self.note(f"calm: {disturbance.what}")

    def break_sfu_link(self) -> None:
        """The SFU's interface goes down and comes back."""
        disturbance = self.disturb("the SFU's link is down")
        self.site.set_sfu_link(up=False)
        time.sleep(self.choose.uniform(0, LINK_DOWN_S))
        self.site.set_sfu_link(up=True)
        self.calm(disturbance)

    def remove_sfu_interface(self) -> None:
        """The switch's interface goes and another of its name comes, which the switch must take."""
        n_lost = self.metrics().sum_of(PORT_LOST)
        disturbance = self.disturb("the SFU's interface is removed")
        self.site.remove_sfu_link()
        time.sleep(self.choose.uniform(0, LINK_DOWN_S))
        self.site.remake_sfu_link(self.model.sfu)
        self.site.know_sfu(self.model.sfu)
        self._await_port(n_lost + 1)
        self.calm(disturbance)

    def _await_port(self, n_lost: int) -> None:
        """Until the switch has found so many interfaces gone, and has one that is up."""
        deadline_s = time.monotonic() + REBIND_TIMEOUT_S
        while time.monotonic() < deadline_s:
            metrics = self.metrics()
            if metrics.sum_of(PORT_LOST) >= n_lost and metrics.sum_of(PORT_LINK, 'state="up"'):
                return
            time.sleep(0.01)
        self.fail("the switch has not taken its interface's successor in time")

    def break_host_link(self) -> None:
        """A host's cable is pulled and put back."""
        host = self.choose.randint(1, N_HOSTS)
        disturbance = self.disturb("a host's link is down", [host])
        self.site.set_host_link(host, up=False)
        time.sleep(self.choose.uniform(0, LINK_DOWN_S))
        self.site.set_host_link(host, up=True)
        self.site.know_sfu(self.model.sfu, host)
        self.calm(disturbance)

    def flood(self) -> None:
        """A host sends as fast as it can; what is lost meanwhile must have been counted."""
        kind = self.choose.choice(KINDS)
        host = self.choose.randint(1, N_HOSTS)
        before = self.losses()
        disturbance = self.disturb(f"h{host} floods: {kind}")
        frames = self.choose.randint(1, FLOOD_FRAMES)
        arguments = [kind, host, self.model.sfu, frames, self.choose.randrange(1 << 30)]
        argv = [sys.executable, "-m", "lab.operation.flood", *map(str, arguments)]
        with self.site.host(host).start(argv, self.folder / "flood.log") as child:
            child.expect_success(COMMAND_TIMEOUT_S)
        self.calm(disturbance)
        self.judge_until(time.monotonic_ns() + SETTLED_NS + IN_FLIGHT_NS)
        counted = self.losses() - before
        if disturbance.n_missing > counted:
            self.fail(
                f"{disturbance.n_missing} packets were lost while h{host} flooded ({kind}, "
                f"{frames} frames), {counted} were counted"
            )

    def losses(self) -> int:
        """Everything that is counted as lost between presenters' and viewers' sockets."""
        drops = self.metrics().drops
        return sum(drops.get(reason, 0) for reason in PORT_REASONS) + self.site.drops()

    def metrics(self) -> Counters:
        """The switch's counters."""
        return read_metrics(self.site.sfu)

    def crash(self) -> None:
        """The switch is killed and brought back with the state that was exported last."""
        self.check_accounts()
        disturbance = self.disturb("the switch was killed")
        stale = self.model
        self.oracle.mark(time.monotonic_ns(), stale.pairs() | self.exported.pairs(), Due.MAY)
        self.switch.kill()
        self._restart(disturbance, stale)

    def restart(self) -> None:
        """The switch is told to end, which it must do in time, and is started again."""
        disturbance = self.disturb("the switch was stopped")
        stale = self.model
        self.oracle.mark(time.monotonic_ns(), stale.pairs() | self.exported.pairs(), Due.MAY)
        if (code := self.switch.stop()) != 0:
            self.fail(f"the switch ended with {code} when told to stop")
        self._restart(disturbance, stale)

    def _restart(self, disturbance: Disturbance, stale: Conference) -> None:
        self.start_switch()
        self.model = self.exported.copy()
        self.command(*Apply(self.model).arguments(self.folder))
        self.follow_address()
        self.calm(disturbance)
        self._settle(stale.pairs() | self.model.pairs())

    def check_accounts(self) -> None:
        """Nothing has vanished inside of the switch."""
        if vanished := self.metrics().vanished_inside:
            self.fail(f"{vanished} packets have vanished inside of the switch")

    # The loop.

    def look(self) -> None:
        """Gives the oracle what was sent and received."""
        # Received first: what was received has been sent before, so its record is there too.
        received = list(self.endpoints.new_received())
        for presenter, sequence, at_ns in self.endpoints.new_sent():
            self.oracle.sent(presenter, sequence, at_ns)
        for viewer, udp_port, presenter, sequence, at_ns in received:
            pair = Pair(presenter, viewer, udp_port)
            if sequence != FLOOD_SEQUENCE:
                self.oracle.received(pair, sequence, at_ns)
            elif self.oracle.due(pair, at_ns - IN_FLIGHT_NS, at_ns) == {Due.MUST_NOT}:
                self.fail(f"a flood of h{presenter} came to h{viewer}:{udp_port}")
        if self.endpoints.child.exit_code is not None:
            raise self.endpoints.child.fail("ended")
        if self.switch.exit_code is not None:
            raise self.switch.fail(f"exit code {self.switch.exit_code} unasked")

    def judge_until(self, until_ns: int) -> None:
        """Looks on while nothing is done, until a moment."""
        while (now_ns := time.monotonic_ns()) < until_ns:
            self.look()
            self.oracle.judge(now_ns)
            time.sleep(0.02)

    def run(self, duration_s: float, report: Callable[[float], None]) -> None:
        """Operates for so long; stops early when much is wrong."""
        begun_s = time.monotonic()
        actions = self.actions()
        names, weights = [*actions], [weight for weight, _ in actions.values()]
        n_actions = 0
        while (passed_s := time.monotonic() - begun_s) < duration_s:
            if len(self.oracle.violations) >= VIOLATIONS_MAX:
                break
            name = self.choose.choices(names, weights)[0]
            self.tally.actions[name] += 1
            self.note(f"action {name}")
            actions[name][1]()
            n_actions += 1
            if n_actions % EXPORT_EVERY == 0:
                self.check_state()
                self.exported = self.model.copy()
            self.judge_until(time.monotonic_ns() + round(self.choose.uniform(0, 3e8)))
            report(passed_s)
        self.judge_until(time.monotonic_ns() + SETTLED_NS + IN_FLIGHT_NS)
        self.check_state()
        self.check_accounts()
        if overflows := self.site.socket_overflows():
            raise ChildError(f"hosts' sockets lost {overflows} datagrams: nothing can be concluded")

    def actions(self) -> dict[str, tuple[int, Callable[[], None]]]:
        """Everything that is done, with how often."""
        return {
            "change": (30, lambda: self.change_at_random(1, may_kill=False)),
            "changes at once": (
                15,
                lambda: self.change_at_random(COMMANDS_AT_ONCE, may_kill=False),
            ),
            "controller killed": (20, lambda: self.change_at_random(1, may_kill=True)),
            "controllers killed": (
                8,
                lambda: self.change_at_random(COMMANDS_AT_ONCE, may_kill=True),
            ),
            "host's link": (5, self.break_host_link),
            "SFU's link": (3, self.break_sfu_link),
            "SFU's interface": (2, self.remove_sfu_interface),
            "flood": (3, self.flood),
            "switch killed": (2, self.crash),
            "switch stopped": (1, self.restart),
            "nothing": (5, lambda: self.judge_until(time.monotonic_ns() + 10**9)),
        }
