"""Runs random actions, some more often than others, for a given time."""

import time
from collections.abc import Callable, Mapping

from lab.operation import faults, rivals
from lab.operation.operation import COMMANDS_AT_ONCE, Operation
from lab.operation.oracle import IN_FLIGHT_NS, SETTLED_NS
from lab.process import ChildError

EXPORT_EVERY = 10
VIOLATIONS_MAX = 50
NOTHING_NS = 10**9

Action = Callable[[Operation], None]


def commands(n_at_once: int, *, may_kill: bool) -> Action:
    return lambda operation: operation.change_at_random(n_at_once, may_kill=may_kill)


ACTIONS: Mapping[str, tuple[int, Action]] = {
    "change": (30, commands(1, may_kill=False)),
    "changes at once": (15, commands(COMMANDS_AT_ONCE, may_kill=False)),
    "controller killed": (20, commands(1, may_kill=True)),
    "controllers killed": (8, commands(COMMANDS_AT_ONCE, may_kill=True)),
    "host's link": (5, faults.break_host_link),
    "SFU's link": (3, faults.break_sfu_link),
    "SFU's interface": (2, faults.remove_sfu_interface),
    "host's card": (6, faults.change_card),
    "foreign controller": (3, rivals.foreign_controller),
    "flood": (3, faults.flood),
    "switch killed": (2, faults.crash),
    "switch stopped": (1, faults.restart),
    "nothing": (5, lambda operation: operation.judge_until(time.monotonic_ns() + NOTHING_NS)),
}
"""Each action with its weight: how often it is chosen, relative to the others."""


def operate(operation: Operation, duration_s: float, report: Callable[[float], None]) -> None:
    """Operates for `duration_s`; stops early after many violations."""
    begun_s = time.monotonic()
    weights = [weight for weight, _ in ACTIONS.values()]
    n_actions = 0
    while (passed_s := time.monotonic() - begun_s) < duration_s:
        if len(operation.oracle.violations) >= VIOLATIONS_MAX:
            break
        name = operation.choose.choices([*ACTIONS], weights)[0]
        operation.tally.actions[name] += 1
        operation.note(f"action {name}")
        ACTIONS[name][1](operation)
        n_actions += 1
        if n_actions % EXPORT_EVERY == 0:
            operation.check_state()
            operation.export()
        pause_ns = round(operation.choose.uniform(0, 3e8))
        operation.judge_until(time.monotonic_ns() + pause_ns)
        report(passed_s)
    operation.judge_until(time.monotonic_ns() + SETTLED_NS + IN_FLIGHT_NS)
    operation.check_state()
    operation.check_accounts()
    if overflows := operation.site.socket_overflows():
        raise ChildError(f"hosts' sockets lost {overflows} datagrams: nothing can be concluded")
