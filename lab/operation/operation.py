"""Operates a switch with random commands, while an oracle knows who must get which packets."""

import json
import math
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Self

from lab.addresses import SFU_UDP_PORT, ip_of, mac_of
from lab.controller import REPRISE
from lab.counters import METRICS_ADDRESS, Counters, read_metrics
from lab.operation.changes import (
    OTHER_UDP_PORT,
    Apply,
    Busy,
    Change,
    Choices,
    MoveAddress,
    Refresh,
)
from lab.operation.endpoints import FLOOD_SEQUENCE, Config, Endpoints
from lab.operation.oracle import IN_FLIGHT_NS, Disturbance, Due, Oracle
from lab.operation.site import Site
from lab.operation.state import (
    FIRST_HOST_OF_PORT_2,
    Conference,
    Pair,
    Viewer,
    differences,
    parse_show,
)
from lab.process import REPOSITORY, Child, dying_with_parent
from lab.switch import (
    GRPC_ADDRESS,
    READY_TIMEOUT_S,
    REPLICATION_PROGRAM,
    SWITCH,
    MissingBuildError,
    require_build,
)

FINSY_PYTHON = REPOSITORY / ".venv-finsy/bin/python"
COMMAND_TIMEOUT_S = 120.0
N_HOSTS = 10
PRESENTERS = (1, 2, 3, 7, 8)
N_GROUPS = 4
RATE_PPS = 40.0
PAYLOAD_BYTES = 200
ADDRESSES = {1: (100, 101, 102), 2: (110, 111, 112)}
"""For each port: the last bytes of the addresses that the SFU can have on it."""
COMMANDS_AT_ONCE = 4
TOOK_OVER = "another controller took over as primary"
REFRESH_EVERY_S = 20
EXPORTED = "exported.yaml"
EXPORTED_ENTRIES = "exported.txtpb"
KILLED_AFTER_S = 0.02
"""The average time after which a command is killed. A command takes 10 to 50 ms."""


@dataclass(slots=True)
class Running:
    change: Change
    argv: list[str]
    process: subprocess.Popen[str]
    affected: set[Pair]
    kill_at_s: float


@dataclass(slots=True)
class Tally:
    actions: Counter[str] = field(default_factory=Counter)
    commands: int = 0
    killed: int = 0


class Operation:
    """One test run: network, switch, sockets, oracle, and a model of the conference's state."""

    def __init__(
        self, folder: Path, program: Path, seed: int, *, switch_options: Sequence[str] = ()
    ) -> None:
        require_build(SWITCH, REPRISE)
        if not FINSY_PYTHON.exists():
            raise MissingBuildError(f"{FINSY_PYTHON} does not exist: `make setup` makes it")
        self.folder = folder
        self.program = program
        self.switch_options = list(switch_options)
        self.choose = random.Random(seed)
        self.oracle = Oracle()
        self.tally = Tally()
        self.log = (folder / "actions.txt").open("w")
        has_ports = program == REPLICATION_PROGRAM
        hosts = range(1, N_HOSTS + 1)
        self.ports = {n: 2 if has_ports and n >= FIRST_HOST_OF_PORT_2 else 1 for n in hosts}
        self.macs = {n: mac_of(n) for n in hosts}
        self.site = Site(self.ports)
        self.model = Conference({})
        self.possible: list[Conference] = []
        """The states that killed commands may have left; empty if the switch's state is known."""
        self.unresolved: set[Pair] = set()
        """The pairs that may lose packets while a command cleans up after killed commands.

        A pair is a presenter and a viewer's socket.
        """
        self.is_left_over = False
        self.exported = self.model
        self.n_switches = 0
        self.udp_ports = [SFU_UDP_PORT, OTHER_UDP_PORT] if has_ports else [SFU_UDP_PORT]
        self.choices = Choices(
            groups=range(1, N_GROUPS + 1),
            presenters=PRESENTERS,
            viewers=[Viewer(n, port) for n in hosts for port in self.udp_ports],
            ports=self.ports,
            macs=self.macs,
            addresses={port: ADDRESSES[port] for port in self.site.ports},
            has_ports=has_ports,
        )
        self.stack = ExitStack()
        self.switch: Child

    def __enter__(self) -> Self:
        self.stack.enter_context(self.site)
        self.stack.callback(self.log.close)
        hosts = range(1, N_HOSTS + 1)
        self.endpoints = Endpoints(
            Config(
                namespaces={str(n): self.site.host(n).name for n in hosts},
                ips={str(n): ip_of(n) for n in hosts},
                presenters=list(PRESENTERS),
                udp_ports=self.udp_ports,
                rate_pps=RATE_PPS,
                payload_bytes=PAYLOAD_BYTES,
                sfu_ips=self._sfu_ips({port: numbers[0] for port, numbers in ADDRESSES.items()}),
                sent=str(self.folder / "sent.bin"),
                received=str(self.folder / "received.bin"),
            ),
            self.folder,
        )
        self.stack.callback(self.endpoints.child.stop)
        self.start_switch()
        # Not `self.switch.stop`: by then `self.switch` may be another switch.
        self.stack.callback(self._stop_switch)
        for port in self.site.ports:
            move = MoveAddress(port, ADDRESSES[port][0])
            self.command(*move.arguments(self.folder))
            move.apply(self.model)
        self.follow_address()
        self.export()
        follow = self.argv("viewer", "refresh", "--every", str(REFRESH_EVERY_S))
        self.follower = Child(follow, self.folder / "refresh.log")
        self.stack.callback(self.follower.stop)
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def _stop_switch(self) -> None:
        self.switch.stop()

    def start_switch(self, *options: str) -> None:
        """Starts a new switch with the program. It has no state, unless `options` give it one."""
        self.n_switches += 1
        interfaces = [("-i", f"{port}@{self.site.interface(port)}") for port in self.site.ports]
        argv = [
            *(str(SWITCH), *chain.from_iterable(interfaces), "--grpc", GRPC_ADDRESS),
            *("--metrics", METRICS_ADDRESS, *self.switch_options, *options, str(self.program)),
        ]
        self.switch = self.site.sfu.start(argv, self.folder / f"switch-{self.n_switches}.log")
        self.switch.wait_for_line("ready:", READY_TIMEOUT_S)

    def _sfu_ips(self, own: Mapping[int, int]) -> dict[str, str]:
        """Maps each presenter to the SFU's address on its port, if the SFU has an address there."""
        heard = [presenter for presenter in PRESENTERS if self.ports[presenter] in own]
        return {str(presenter): ip_of(own[self.ports[presenter]]) for presenter in heard}

    def follow_address(self) -> None:
        """Enters the SFU's addresses in hosts' neighbour tables; makes presenters send to them."""
        self.site.know_sfu(self.model.own)
        self.endpoints.send_to(self._sfu_ips(self.model.own))

    def argv(self, *arguments: str) -> list[str]:
        return self.site.sfu.command([str(REPRISE), "--switch", GRPC_ADDRESS, *arguments])

    def command(self, *arguments: str) -> str:
        """Runs a command whose effects the oracle need not know; a failure is a violation."""
        done = self.run_command(*arguments)
        if done.returncode != 0:
            self.fail(f"`reprise {' '.join(arguments)}` failed: {done.stderr.strip()}")
        return done.stdout

    def run_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        self.tally.commands += 1
        return subprocess.run(
            dying_with_parent(self.argv(*arguments)),
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )

    def fail(self, what: str) -> None:
        """Records a violation that is not about a packet."""
        self.note(f"VIOLATION {what}")
        self.oracle.fail(time.monotonic_ns(), what)

    def note(self, what: str) -> None:
        self.log.write(f"{time.monotonic_ns() / 1e9:.3f} {what}\n")
        self.log.flush()

    def change_at_random(
        self,
        n_at_once: int,
        *,
        may_kill: bool,
        options: Sequence[str] = (),
        may_be_outbid: bool = False,
    ) -> None:
        """Runs several random commands at once; some may be killed before they end."""
        changes: list[Change] = []
        busy = Busy()
        while len(changes) < n_at_once:
            change = self.choices.change(self.model, self.choose, busy, alone=not changes)
            if change is None or (changes and change.runs_alone):
                break
            changes.append(change)
            if change.runs_alone:
                break
            busy.add(change, self.model)
        if changes:
            self.run_changes(
                changes, may_kill=may_kill, options=options, may_be_outbid=may_be_outbid
            )

    def run_changes(
        self,
        changes: Sequence[Change],
        *,
        may_kill: bool,
        options: Sequence[str] = (),
        may_be_outbid: bool = False,
    ) -> None:
        """Runs commands at once, waits for all of them, and updates the model and the oracle."""
        before = self.model
        moved = any(change.after(before).own != before.own for change in changes)
        disturbance = self.disturb("the SFU's address changes") if moved else None
        running = [self._start(change, options, may_kill=may_kill) for change in changes]
        killed = self._wait(running, may_be_outbid=may_be_outbid)
        for one in running:
            if one not in killed:
                one.change.apply(self.model)
        if killed:
            self.unresolved |= set().union(*(one.affected for one in killed))
            after = self.model
            self.possible.append(after)
            # Each killed command may or may not have taken effect.
            for one in killed:
                self.possible += [one.change.after(state) for state in list(self.possible)]
            self.resolve()
        else:
            # Each of these commands first cleaned up what killed commands had left behind.
            self._settle_unresolved()
            if moved:
                self.follow_address()
        if disturbance is not None:
            self.calm(disturbance)
        self.settle(set().union(*(one.affected for one in running)))

    def _start(self, change: Change, options: Sequence[str], *, may_kill: bool) -> Running:
        affected = change.affected(self.model, self.ports)
        self.oracle.mark(time.monotonic_ns(), affected, Due.MAY)
        argv = [*change.arguments(self.folder), *options]
        kill_at_s = math.inf
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

    def _wait(self, running: Sequence[Running], *, may_be_outbid: bool) -> list[Running]:
        """Waits for the commands; returns those that were killed, failed, or lost primacy."""
        killed: list[Running] = []
        waiting = list(running)
        deadline_s = time.monotonic() + COMMAND_TIMEOUT_S
        while waiting:
            now_s = time.monotonic()
            for one in list(waiting):
                if one.process.poll() is not None:
                    waiting.remove(one)
                elif now_s >= one.kill_at_s:
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
                if not (may_be_outbid and TOOK_OVER in errors):
                    self.fail(
                        f"`reprise {' '.join(one.argv)}` failed: {errors.strip()} {output.strip()}"
                    )
                killed.append(one)
        return killed

    def resolve(self) -> None:
        """Checks after a kill that further commands succeed, and that the state is possible."""
        if self.choose.random() < 0.5:
            # `apply` changes the state, so it must cope with what killed commands left behind.
            target = self.choose.choice(self.possible)
            change = Apply(target.copy(), self.choices.has_ports)
            self.note("go on: apply one of the possible states")
            for state in self.possible:
                affected = change.affected(state, self.ports)
                self.unresolved |= affected
                self.oracle.mark(time.monotonic_ns(), affected, Due.MAY)
            self.command(*change.arguments(self.folder))
            self.possible = [target]
        shown = self.show()
        if shown is None:
            return
        # The process that runs `viewer refresh --every` may write viewers' new MAC addresses at any
        # time.
        self.possible += [self.refresh().after(state) for state in self.possible]
        for difference in differences(shown, self.possible):
            self.fail(f"after a command was killed {difference}")
        self.model = shown
        self.possible = []
        self.follow_address()
        if not self.is_left_over:
            self._settle_unresolved()

    def _settle_unresolved(self) -> None:
        self.settle(self.unresolved)
        self.unresolved = set()

    def show(self) -> Conference | None:
        """Returns the state that `reprise show` prints.

        If the output cannot be read, records a violation and returns None.
        """
        said = self.command("show", "--json")
        try:
            document = json.loads(said)
            self.is_left_over = bool(document["left_over"])
            return parse_show(document)
        except (ValueError, KeyError, TypeError) as error:
            self.fail(f"`reprise show --json` cannot be read: {error!r}: {said[:300]}")
            return None

    def settle(self, pairs: set[Pair]) -> None:
        """Tells the oracle that from now on these pairs must be served exactly as in the model."""
        now_ns = time.monotonic_ns()
        services = self.model.services(self.ports)
        served = {pair for pair, mac in services.items() if mac == self.macs[pair.viewer]}
        self.oracle.mark(now_ns, pairs & served, Due.MUST)
        self.oracle.mark(now_ns, pairs - served, Due.MUST_NOT)

    def refresh(self) -> Refresh:
        """The change that `viewer refresh` makes if it finds the hosts' present MAC addresses."""
        return Refresh(dict(self.macs))

    def export(self) -> None:
        """Exports the state as an operator would, for the next switch."""
        self.command("export", "-o", str(self.folder / EXPORTED))
        entries = str(self.folder / EXPORTED_ENTRIES)
        self.command("export", "--format", "p4runtime", "-o", entries)
        self.exported = self.model.copy()

    def check_state(self) -> None:
        """Records a violation for each difference between the switch's state and the model's."""
        if (shown := self.show()) is not None:
            for difference in differences(shown, [self.model]):
                self.fail(f"in calm {difference}")

    def disturb(self, what: str, hosts: Sequence[int] | None = None) -> Disturbance:
        """Begins a disturbance, in which these hosts (None: all) may miss copies of packets."""
        self.note(f"disturb: {what} {hosts or ''}")
        return self.oracle.disturb(time.monotonic_ns(), what, hosts)

    def calm(self, disturbance: Disturbance) -> None:
        """Ends a disturbance: a copy that is missing from now on is a violation."""
        disturbance.over_ns = time.monotonic_ns()
        self.note(f"calm: {disturbance.what}")

    def hosts_on(self, port: int) -> list[int]:
        return [host for host, at in self.ports.items() if at == port]

    def metrics(self) -> Counters:
        return read_metrics(self.site.sfu)

    def check_accounts(self) -> None:
        """Records a violation if packets have vanished inside the switch."""
        if vanished := self.metrics().vanished_inside:
            self.fail(f"{vanished} packets have vanished inside of the switch")

    def look(self) -> None:
        """Gives the oracle the packets that were sent and received since the last call."""
        # The received packets are read first. The sent packets, which are read afterwards, then
        # include every received packet.
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
        for child in (self.switch, self.follower):
            if child.exit_code is not None:
                raise child.fail(f"exit code {child.exit_code} unasked")

    def judge_until(self, until_ns: int) -> None:
        """Judges packets until a moment, without doing anything else."""
        while (now_ns := time.monotonic_ns()) < until_ns:
            self.look()
            known = len(self.oracle.violations)
            self.oracle.judge(now_ns)
            for one in self.oracle.violations[known:]:
                self.note(f"VIOLATION of {one.time_ns / 1e9:.3f}: {one.what}")
            time.sleep(0.02)
