"""The benchmark of the switch beside its peers, as `make bench` runs it.

Into a folder of its own go a CSV file for each experiment, raw samples, figures and `report.html`.
Measure on a machine that does nothing else: every other process shows.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from lab.bench import matrix
from lab.bench.derive import REPORT, derive
from lab.bench.experiment import Failures, add_bmv2, prepare
from lab.bench.folder import SESSION, facts_of, not_measured_before, write_session
from lab.bench.matrix import Choice
from lab.bench.suite import Experiment, experiments, tsc_mhz
from lab.controller import REPRISE
from lab.netns import NamespaceError
from lab.process import REPOSITORY, ChildError, interrupt_on_termination
from lab.study.progress import clock
from lab.sudo import give_to_user
from lab.switch import SWITCH, MissingBuildError, require_build

VIEWERS_MAX = 4096
"""As in lab/peers."""
EXIT_INTERRUPTED = 130


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    known = experiments(Choice())
    about = "".join(f"  {one.name:12}{one.about}\n" for one in known)
    parser = argparse.ArgumentParser(
        prog="python -m lab.bench",
        description=__doc__,
        epilog=f"experiments:\n{about}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "experiments",
        nargs="*",
        metavar="EXPERIMENT",
        help="only these; without any, all of them",
    )
    parser.add_argument("--quick", action="store_true", help="each in its shortest form")
    parser.add_argument(
        "--resume", type=Path, metavar="DIR", help="go on with a folder; what it has stays"
    )
    parser.add_argument(
        "--results", type=Path, default=REPOSITORY / "results", help="the folder of folders"
    )
    add_bmv2(parser)
    fanout = parser.add_argument_group("fanout")
    fanout.add_argument("--rounds", type=int, default=None, help="rounds; the median counts")
    fanout.add_argument("--fanouts", type=int, nargs="+", default=[], metavar="N")
    fanout.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="WORDS",
        help="forwarders whose name holds one of these, such as 'native afxdp'",
    )
    chosen = parser.parse_args(argv)
    names = [one.name for one in known]
    for name in chosen.experiments:
        if name not in names:
            parser.error(f"expected an experiment ({', '.join(names)}), found {name!r}")
    if chosen.rounds is not None and chosen.rounds < 1:
        parser.error(f"--rounds: expected 1 or more, found {chosen.rounds}")
    if chosen.resume is not None and not (chosen.resume / SESSION).exists():
        parser.error(f"--resume: {chosen.resume} is no folder of a benchmark: no {SESSION}")
    for fanout_number in chosen.fanouts:
        if not 1 <= fanout_number <= VIEWERS_MAX:
            parser.error(f"--fanouts: expected 1 to {VIEWERS_MAX}, found {fanout_number}")
    if not matrix.cells(choice_of(chosen)):
        known_names = "\n  ".join(matrix.names())
        parser.error(
            f"--only: no forwarder has one of these in its name; there are\n  {known_names}"
        )
    return chosen


def choice_of(chosen: argparse.Namespace) -> Choice:
    """What fan-out is narrowed to."""
    return Choice(tuple(chosen.only), tuple(chosen.fanouts), chosen.rounds or 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the experiments, then makes figures and report; the exit code."""
    typed = list(sys.argv[1:] if argv is None else argv)
    chosen = arguments(typed)
    interrupt_on_termination()
    todo = [
        one
        for one in experiments(choice_of(chosen), is_quick=chosen.quick)
        if not chosen.experiments or one.name in chosen.experiments
    ]
    try:
        require(todo)
    except (NamespaceError, MissingBuildError, ChildError) as error:
        print(f"lab.bench: {error}", file=sys.stderr)
        return 1
    folder = chosen.resume or chosen.results / f"bench-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder.mkdir(parents=True, exist_ok=True)
    began_s = time.monotonic()
    try:
        failures = run_all(todo, folder, typed)
    except KeyboardInterrupt:
        print(f"\nlab.bench: interrupted; go on with --resume {folder}", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        give_to_user(folder)
    finish(folder, failures, time.monotonic() - began_s)
    return 0 if all((folder / one.file).exists() for one in todo) else 1


def require(todo: Sequence[Experiment]) -> None:
    """Raises what is lacking; the peers are built."""
    require_build(SWITCH, REPRISE)
    if not any(one.needs_root for one in todo):
        return
    if os.geteuid() != 0:
        raise NamespaceError("AF_XDP and the sink's BPF program need root: `make bench` asks sudo")
    prepare()


def run_all(todo: Sequence[Experiment], folder: Path, typed: Sequence[str]) -> Failures:
    """Runs what the folder does not have; what could not be measured stands in the session."""
    todo = [one for one in todo if not (folder / one.file).exists()]
    facts = facts_of(["python", "-m", "lab.bench", *typed])
    failures: Failures = not_measured_before(folder)
    write_session(folder, facts, failures)
    for idx, experiment in enumerate(todo):
        left_s = sum(one.planned_s for one in todo[idx:])
        print(
            f"lab.bench: {experiment.name} ({idx + 1} of {len(todo)}), about "
            f"{clock(experiment.planned_s)}; all: {clock(left_s)} to go, into {folder}",
            file=sys.stderr,
        )
        try:
            failures += [f"{experiment.name}: {why}" for why in experiment.run(folder)]
        except (ChildError, MissingBuildError, NamespaceError) as error:
            failures.append(f"{experiment.name}: {error}")
        facts["time stamp counter MHz"] = tsc_mhz(folder)
        write_session(folder, facts, failures)
    return failures


def finish(folder: Path, failures: Failures, took_s: float) -> None:
    """Makes the report, says what holds."""
    content = derive(folder)
    for check in content.checks:
        print(f"{check.word}: {check.name}")
        for value in check.found.split("; "):
            print(f"    {value}")
    for failure in failures:
        print(f"not measured: {failure}", file=sys.stderr)
    print(f"took {clock(took_s)}")
    print((folder / REPORT).resolve())
    give_to_user(folder)


if __name__ == "__main__":
    sys.exit(main())
