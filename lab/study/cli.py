"""`./reprise-lab`: the command line of the studies."""

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from lab import report as text
from lab.controller import REPRISE
from lab.netns import NamespaceError, require_namespaces
from lab.process import REPOSITORY, ChildError, interrupt_on_termination
from lab.study.compare import HEADER, compared
from lab.study.definitions import N_HOSTS_DEFAULT, STUDIES, Sfu, Study, planned_s
from lab.study.derive import REPORT, derive
from lab.study.folder import Folder, FolderError, folders
from lab.study.machine import session
from lab.study.progress import clock
from lab.study.reference import load
from lab.study.results import results_of
from lab.study.run import Settings, latest_unfinished, run_missing
from lab.study.stars import STARS, install_packages_for
from lab.study.tables import overview
from lab.sudo import give_to_user
from lab.switch import SWITCH, MissingBuildError, require_build
from lab.terminal import StatusLine

RESULTS = REPOSITORY / "results"
THIS = REPOSITORY / "reprise-lab"
IN_NAMESPACES = REPOSITORY / "scripts" / "in-namespaces"
_BRIDGE_HELP = (
    "the switch in the middle: Linux' bridge, Open vSwitch with its datapath in user space, or "
    "Mininet (lxbr); the latter two install Debian packages where they are missing, and say so"
)
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; the exit code."""
    interrupt_on_termination()
    typed = list(sys.argv[1:] if argv is None else argv)
    arguments = _parser().parse_args(typed)
    try:
        match arguments.command:
            case "list":
                return _list(arguments.results)
            case "run":
                return _run(arguments, typed)
            case "report":
                return _report(Folder.open(arguments.folder))
            case _:
                return _compare(arguments.a, arguments.b)
    except (FolderError, NamespaceError, ChildError, MissingBuildError, ValueError) as error:
        print(f"reprise-lab: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("\nreprise-lab: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./reprise-lab", description="The thesis' experiment, run here and set beside it."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    results = argparse.ArgumentParser(add_help=False)
    results.add_argument("--results", type=Path, default=RESULTS, help="the folder of folders")
    commands.add_parser("list", parents=[results], help="studies, and the folders there are")
    run = commands.add_parser("run", parents=[results], help="run a study and make its report")
    run.add_argument("study", choices=STUDIES)
    run.add_argument(
        "--resume",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="DIR",
        help="go on with a folder; without DIR with the newest unfinished one of this study",
    )
    run.add_argument(
        "--sfu", action="append", choices=[sfu.value for sfu in Sfu], help="only these"
    )
    run.add_argument("--bridge", choices=STARS, default="linux", help=_BRIDGE_HELP)
    run.add_argument(
        "--hosts",
        type=int,
        default=N_HOSTS_DEFAULT,
        help="hosts with a namespace of their own; further viewers are addresses on the last one",
    )
    report = commands.add_parser("report", help="make a folder's tables, figures, report again")
    report.add_argument("folder", type=Path)
    compare = commands.add_parser("compare", help="two folders side by side")
    compare.add_argument("a", type=Path)
    compare.add_argument("b", type=Path)
    return parser


def _list(results: Path) -> int:
    rows = [
        (study.name, str(len(study.runs())), clock(planned_s(study.runs())), study.about)
        for study in STUDIES.values()
    ]
    print(text.table(("study", "runs", "takes about", "what"), rows))
    found = folders(results)
    if found:
        print()
        states = [(str(folder.path), folder.study.name, _state(folder)) for folder in found]
        print(text.table(("folder", "study", "state"), states))
    return 0


def _state(folder: Folder) -> str:
    n_missing, n_all = len(folder.missing()), len(folder.study.runs())
    return f"{n_all - n_missing} of {n_all} runs" if n_missing else "complete"


def _run(arguments: argparse.Namespace, typed: Sequence[str]) -> int:
    install_packages_for(arguments.bridge)
    if os.geteuid() != 0:
        os.execv(IN_NAMESPACES, [str(IN_NAMESPACES), str(THIS), *typed])
    require_namespaces()
    require_build(SWITCH, REPRISE)
    study = STUDIES[arguments.study]
    if arguments.sfu:
        study = study.only([Sfu(name) for name in arguments.sfu])
    folder = _folder(arguments, study)
    index = folder.add_session(session(["./reprise-lab", *typed], arguments.bridge))
    settings = Settings(n_hosts=arguments.hosts, star_type=STARS[arguments.bridge])
    show = StatusLine()
    try:
        refused = run_missing(folder, index, show, settings)
        show.end()
        code = _report(folder, [f"{run.name} refused: {why[-1]}" for run, why in refused.items()])
    except BaseException:
        show.end()
        resume = shlex.join(["./reprise-lab", "run", study.name, "--resume", str(folder.path)])
        print(f"{folder.path} keeps {_state(folder)}; go on: {resume}", file=sys.stderr)
        raise
    finally:
        give_to_user(folder.path)
    return code


def _folder(arguments: argparse.Namespace, study: Study) -> Folder:
    if arguments.resume is None:
        return Folder.create(arguments.results, study, datetime.now().astimezone())
    if arguments.resume == Path():
        found = latest_unfinished(folders(arguments.results), study.name)
        if found is None:
            raise FolderError(f"no unfinished folder of {study.name} under {arguments.results}")
        return found
    folder = Folder.open(arguments.resume)
    if folder.study.name != study.name:
        raise FolderError(f"{folder.path} is a folder of {folder.study.name}, not of {study.name}")
    return folder


def _report(folder: Folder, complaints: Sequence[str] = ()) -> int:
    results = derive(folder)
    header, *rows = overview(results)
    print(text.table(header, rows))
    print()
    holds = not complaints
    for check in results.checks:
        if check.n_rows:
            holds = holds and check.holds
            print(f"{'holds' if check.holds else 'FAILS'}: {check.name} ({check.n_rows} runs)")
            for failure in check.failures:
                print(f"  {failure}")
    for complaint in complaints:
        print(f"FAILS: {complaint}")
    print((folder.path / REPORT).resolve())
    return 0 if holds else EXIT_FAILED


def _compare(a: Path, b: Path) -> int:
    published = load()
    rows = [results_of(Folder.open(path).runs(), published).summaries for path in (a, b)]
    print(f"A: {a}\nB: {b}\n")
    print(text.table(HEADER, compared(*rows)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
