"""Actions in which another controller runs beside ours."""

import json
import signal
from threading import Timer

from lab.operation.changes import Busy, Change
from lab.operation.operation import (
    COMMAND_TIMEOUT_S,
    COMMANDS_AT_ONCE,
    FINSY_PYTHON,
    Operation,
)
from lab.operation.state import differences, parse_show
from lab.process import Child
from lab.switch import GRPC_ADDRESS, READY_TIMEOUT_S

FOREIGN_S = 4.0
# These constants have the same values as in `lab.operation.foreign`, which runs in another
# environment.
FOREIGN_REPLICA = 64_000
PRIMARY = "primary"
EXIT_OUTBID = 3


def foreign_controller(operation: Operation) -> None:
    """Lets another controller be primary for a while: our commands wait for it or outbid it."""
    how = operation.choose.choice(("leaves", "killed", "outbid", "takes over", "leaves something"))
    operation.note(f"foreign controller: {how}")
    if how == "leaves something":
        # The recirculation program has no multicast groups.
        groups = [n for n, group in operation.model.groups.items() if group.viewers]
        if operation.choices.has_ports and groups:
            _suffer_foreign_state(operation, operation.choose.choice(groups))
        return
    seconds = COMMAND_TIMEOUT_S if how == "outbid" else operation.choose.uniform(0, FOREIGN_S)
    with _start_foreign(operation, seconds) as foreign:
        if how == "takes over":
            while foreign.exit_code is None:
                n_at_once = operation.choose.randint(1, COMMANDS_AT_ONCE)
                operation.change_at_random(n_at_once, may_kill=False, may_be_outbid=True)
            foreign.expect_success(0)
            return
        foreign.wait_for_line(PRIMARY, READY_TIMEOUT_S)
        if how == "outbid":
            operation.change_at_random(1, may_kill=False, options=["--takeover"])
            if (code := foreign.stop()) not in (EXIT_OUTBID, -signal.SIGTERM):
                raise foreign.fail(f"exit code {code}")
            return
        if how == "killed":
            Timer(seconds / 2, foreign.kill).start()
        operation.change_at_random(operation.choose.randint(1, COMMANDS_AT_ONCE), may_kill=False)
        code = foreign.wait(COMMAND_TIMEOUT_S)
        if code not in ((0, -signal.SIGKILL) if how == "killed" else (0,)):
            raise foreign.fail(f"exit code {code}")


def _start_foreign(operation: Operation, seconds: float, *options: str) -> Child:
    argv = [str(FINSY_PYTHON), "-m", "lab.operation.foreign", GRPC_ADDRESS, str(seconds)]
    return operation.site.sfu.start([*argv, *options], operation.folder / "foreign.log")


def _suffer_foreign_state(operation: Operation, group: int) -> None:
    """Lets a foreign controller add a replica to a group.

    `show` must name the replica, changes must be refused, and no viewer may lose a packet.
    """
    with _start_foreign(operation, 0, "--spoil", str(group)) as foreign:
        foreign.expect_success(COMMAND_TIMEOUT_S)
    shown = json.loads(operation.command("show", "--json"))
    if not shown["foreign"]:
        operation.fail("`reprise show` does not name a replica that somebody else wrote")
    for difference in differences(parse_show({**shown, "foreign": []}), [operation.model]):
        operation.fail(f"beside a foreign replica {difference}")
    change = operation.choices.change(operation.model, operation.choose, Busy(), alone=True)
    if change is not None:
        _expect_refusal(operation, change)
    with _start_foreign(operation, 0, "--mend", str(group)) as foreign:
        foreign.expect_success(COMMAND_TIMEOUT_S)


def _expect_refusal(operation: Operation, change: Change) -> None:
    argv = change.arguments(operation.folder)
    done = operation.run_command(*argv)
    if done.returncode != 1 or f"replica {FOREIGN_REPLICA}" not in done.stderr:
        operation.fail(
            f"beside a foreign replica `reprise {' '.join(argv)}` ended with "
            f"{done.returncode}: {done.stderr.strip()}"
        )
