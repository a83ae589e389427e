"""Actions that break links, interfaces, network cards or the switch, or flood the switch."""

import sys
import time

from lab.addresses import ip_of
from lab.frames import arp_announcement
from lab.operation.changes import Busy, Change
from lab.operation.flood import KINDS
from lab.operation.operation import (
    ADDRESSES,
    COMMAND_TIMEOUT_S,
    COMMANDS_AT_ONCE,
    EXPORTED,
    EXPORTED_ENTRIES,
    N_HOSTS,
    Operation,
)
from lab.operation.oracle import IN_FLIGHT_NS, SETTLED_NS, Disturbance, Due
from lab.operation.state import Pair, differences
from lab.traffic import inject

FLOOD_FRAMES = 20_000
LINK_DOWN_S = 0.3
REBIND_TIMEOUT_S = 120.0
FOLLOW_TIMEOUT_S = 120.0
PORT_LOST = "reprise_port_lost_events_total"
PORT_LINK = "reprise_port_link"
PORT_REASONS = ("rx", "tx", "egress_queue_full", "recirculation_queue_full", "no_room")
"""The reasons for losses that are not decisions of the P4 program."""


def break_sfu_link(operation: Operation) -> None:
    """Takes an interface of the SFU down and up again."""
    port = operation.choose.choice(operation.site.ports)
    disturbance = operation.disturb(f"the SFU's link {port} is down", operation.hosts_on(port))
    operation.site.set_sfu_link(port, up=False)
    time.sleep(operation.choose.uniform(0, LINK_DOWN_S))
    operation.site.set_sfu_link(port, up=True)
    operation.calm(disturbance)


def remove_sfu_interface(operation: Operation) -> None:
    """Removes an interface and makes one of the same name, which the switch must then use."""
    port = operation.choose.choice(operation.site.ports)
    n_lost = operation.metrics().sum_of(PORT_LOST, f'port="{port}"')
    what = f"the SFU's interface {port} is removed"
    disturbance = operation.disturb(what, operation.hosts_on(port))
    operation.site.remove_sfu_link(port)
    time.sleep(operation.choose.uniform(0, LINK_DOWN_S))
    operation.site.make_sfu_link(port)
    operation.site.know_sfu(operation.model.own)
    _await_port(operation, port, n_lost + 1)
    operation.calm(disturbance)


def _await_port(operation: Operation, port: int, n_lost: int) -> None:
    """Waits until the switch has lost the port's interface `n_lost` times and reports it as up."""
    deadline_s = time.monotonic() + REBIND_TIMEOUT_S
    up = f'port="{port}",name="{operation.site.interface(port)}",state="up"'
    while time.monotonic() < deadline_s:
        metrics = operation.metrics()
        is_lost = metrics.sum_of(PORT_LOST, f'port="{port}"') >= n_lost
        if is_lost and metrics.sum_of(PORT_LINK, up):
            return
        time.sleep(0.01)
    operation.fail(f"the switch has not taken the successor of interface {port} in time")


def change_card(operation: Operation) -> None:
    """Gives a host another MAC address.

    `viewer refresh` must find the new address for this host's viewers whose old address was looked
    up.
    """
    host = operation.choose.randint(1, N_HOSTS)
    mac = f"02:00:00:{operation.choose.randrange(4):02x}:01:{host:02x}"
    disturbance = operation.disturb(f"h{host} gets {mac}", [host])
    its_own = {pair for pair in operation.model.services(operation.ports) if pair.viewer == host}
    operation.oracle.mark(time.monotonic_ns(), its_own, Due.MAY)
    operation.site.set_host_mac(host, mac)
    operation.macs[host] = mac
    operation.site.know_sfu(operation.model.own, host)
    operation.calm(disturbance)
    if operation.choose.random() < 0.5:
        # The process that runs `viewer refresh --every` must notice the announcement.
        operation.note(f"h{host} announces itself")
        inject(operation.site.host(host), arp_announcement(ip_of(host), mac))
        _await_follower(operation, host)
    else:
        _refresh_at_once(operation, may_kill=operation.choose.random() < 0.5)
    operation.settle(its_own)


def _await_follower(operation: Operation, host: int) -> None:
    """Waits until all looked-up viewers of this host have its new MAC address."""
    operation.refresh().apply(operation.model)
    deadline_s = time.monotonic() + FOLLOW_TIMEOUT_S
    while (shown := operation.show()) is not None:
        if not (found := differences(shown, [operation.model])):
            return
        if time.monotonic() > deadline_s:
            operation.fail(f"h{host} was not followed: {found}")
            return
        operation.judge_until(time.monotonic_ns() + 10**8)


def _refresh_at_once(operation: Operation, *, may_kill: bool) -> None:
    """Runs `viewer refresh` beside other commands, and again alone if it may have been killed."""
    changes: list[Change] = [operation.refresh()]
    busy = Busy()
    busy.add(changes[0], operation.model)
    for _ in range(operation.choose.randrange(COMMANDS_AT_ONCE)):
        other = operation.choices.change(operation.model, operation.choose, busy, alone=False)
        if other is not None:
            busy.add(other, operation.model)
            changes.append(other)
    operation.run_changes(changes, may_kill=may_kill)
    if may_kill:
        operation.run_changes([operation.refresh()], may_kill=False)


def break_host_link(operation: Operation) -> None:
    """Takes a host's link down and up again."""
    host = operation.choose.randint(1, N_HOSTS)
    disturbance = operation.disturb("a host's link is down", [host])
    operation.site.set_host_link(host, up=False)
    time.sleep(operation.choose.uniform(0, LINK_DOWN_S))
    operation.site.set_host_link(host, up=True)
    operation.site.know_sfu(operation.model.own, host)
    operation.calm(disturbance)


def flood(operation: Operation) -> None:
    """Lets a host send as fast as it can. All losses meanwhile must be counted somewhere."""
    kind = operation.choose.choice(KINDS)
    host = operation.choose.randint(1, N_HOSTS)
    before = losses(operation)
    disturbance = operation.disturb(f"h{host} floods: {kind}")
    frames = operation.choose.randint(1, FLOOD_FRAMES)
    port = operation.ports[host]
    sfu = operation.model.own.get(port, ADDRESSES[port][0])
    arguments = [kind, host, sfu, frames, operation.choose.randrange(1 << 30)]
    argv = [sys.executable, "-m", "lab.operation.flood", *map(str, arguments)]
    with operation.site.host(host).start(argv, operation.folder / "flood.log") as child:
        child.expect_success(COMMAND_TIMEOUT_S)
    operation.calm(disturbance)
    operation.judge_until(time.monotonic_ns() + SETTLED_NS + IN_FLIGHT_NS)
    counted = losses(operation) - before
    if disturbance.n_missing > counted:
        operation.fail(
            f"{disturbance.n_missing} packets were lost while h{host} flooded ({kind}, "
            f"{frames} frames), {counted} were counted"
        )


def losses(operation: Operation) -> int:
    """The sum of all counters of packets lost between presenters' and viewers' sockets."""
    drops = operation.metrics().drops
    return sum(drops.get(reason, 0) for reason in PORT_REASONS) + operation.site.drops()


def crash(operation: Operation) -> None:
    """Kills the switch and starts a new one with the state that was exported last."""
    operation.check_accounts()
    disturbance = operation.disturb("the switch was killed")
    stale = _mark_all(operation)
    operation.switch.kill()
    _restart(operation, disturbance, stale)


def restart(operation: Operation) -> None:
    """Stops the switch, which must end by itself in time, and starts it again."""
    disturbance = operation.disturb("the switch was stopped")
    stale = _mark_all(operation)
    if (code := operation.switch.stop()) != 0:
        operation.fail(f"the switch ended with {code} when told to stop")
    _restart(operation, disturbance, stale)


def _mark_all(operation: Operation) -> set[Pair]:
    """Marks and returns all pairs (presenter, viewer) that may or may not be served from now on.

    These are the pairs that are served now, the pairs that were served at the last export, and the
    pairs that killed commands affected.
    """
    pairs = {
        *operation.model.services(operation.ports),
        *operation.exported.services(operation.ports),
        *operation.unresolved,
    }
    operation.unresolved = set()
    operation.oracle.mark(time.monotonic_ns(), pairs, Due.MAY)
    return pairs


def _restart(operation: Operation, disturbance: Disturbance, stale: set[Pair]) -> None:
    if operation.choose.random() < 0.5:
        operation.start_switch("--entries", str(operation.folder / EXPORTED_ENTRIES))
    else:
        operation.start_switch()
        operation.command("apply", str(operation.folder / EXPORTED))
    operation.model = operation.exported.copy()
    operation.follow_address()
    # Hosts may have got another MAC address since the export.
    operation.run_changes([operation.refresh()], may_kill=False)
    operation.calm(disturbance)
    operation.settle(stale)
    operation.check_state()
