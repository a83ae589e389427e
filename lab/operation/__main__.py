"""`python -m lab.operation`: runs random commands and faults for a while; reports errors."""

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from lab.operation.operation import Operation
from lab.operation.oracle import Violation
from lab.operation.run import operate
from lab.process import ChildError, interrupt_on_termination
from lab.progress import bar
from lab.switch import RECIRCULATION_PROGRAM, REPLICATION_PROGRAM, MissingBuildError
from lab.terminal import rewrite

PROGRAMS = {"sfu": REPLICATION_PROGRAM, "sfu_recirculation": RECIRCULATION_PROGRAM}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m lab.operation",
        description="A day of operation in short: viewers, presenters and addresses change, "
        "controllers and the switch are killed, links fail, hosts flood, while an oracle knows who "
        "must get every packet. Exit code 1: something was wrong.",
    )
    parser.add_argument("--minutes", type=float, default=5.0, help="how long (5)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random operations (1)")
    parser.add_argument("--program", choices=PROGRAMS, default="sfu", help="the P4 program (sfu)")
    parser.add_argument("--to", type=Path, help="a folder for logs and verdict")
    parser.add_argument("--json", action="store_true", help="the verdict as JSON")
    parser.add_argument(
        "switch_options", nargs="*", metavar="-- SWITCH_OPTION", help="such as --engine interpreter"
    )
    return parser.parse_args()


def verdict(operation: Operation, seconds: float, seed: int) -> dict[str, object]:
    oracle, tally = operation.oracle, operation.tally
    return {
        "program": operation.program.name,
        "seed": seed,
        "seconds": round(seconds),
        "actions": dict(sorted(tally.actions.items())),
        "commands": tally.commands,
        "commands_killed": tally.killed,
        "switches": operation.n_switches,
        "packets": oracle.n_packets,
        "copies": oracle.n_copies,
        "copies_required": oracle.n_required,
        "copies_missing_while_disturbed": oracle.n_excused,
        "violations": [asdict(one) for one in oracle.violations],
    }


def _print(said: dict[str, object], actions: Counter[str], violations: list[Violation]) -> None:
    for key, value in said.items():
        if key not in ("violations", "actions"):
            text = f"{value:,}" if isinstance(value, int) else str(value)
            print(f"{key.replace('_', ' '):34}{text:>14}")
    for action, n_times in sorted(actions.items()):
        print(f"  {action:32}{n_times:>14,}")
    for one in violations:
        print(f"WRONG at {one.time_ns / 1e9:.3f} s: {one.what}")
    print(f"{len(violations)} things were wrong" if violations else "nothing was wrong")


def main() -> int:
    """Runs the random operation that the command line describes; returns the exit code."""
    arguments = _arguments()
    interrupt_on_termination()
    name = time.strftime("operation-%Y%m%d-%H%M%S")
    folder = arguments.to or Path("results") / name
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    duration_s = arguments.minutes * 60
    begun_s = time.monotonic()
    try:
        with Operation(
            folder,
            PROGRAMS[arguments.program],
            arguments.seed,
            switch_options=arguments.switch_options,
        ) as operation:
            operate(
                operation, duration_s, lambda passed_s: _progress(passed_s, duration_s, operation)
            )
    except (ChildError, MissingBuildError) as error:
        print(f"operation: {error}", file=sys.stderr)
        return 1
    said = verdict(operation, time.monotonic() - begun_s, arguments.seed)
    (folder / "verdict.json").write_text(json.dumps(said, indent=2) + "\n")
    if arguments.json:
        print(json.dumps(said))
    else:
        _print(said, operation.tally.actions, operation.oracle.violations)
        print(f"logs: {folder}")
    return 1 if operation.oracle.violations else 0


def _progress(passed_s: float, duration_s: float, operation: Operation) -> None:
    if not sys.stderr.isatty():
        return
    oracle = operation.oracle
    what = (
        f"{operation.tally.commands:,} commands, {oracle.n_copies:,} copies, "
        f"{len(oracle.violations)} wrong"
    )
    rewrite(bar(round(passed_s), round(duration_s), max(duration_s - passed_s, 0), what))


if __name__ == "__main__":
    sys.exit(main())
