"""`./reprise-lab`: the command line of the studies."""

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from lab import peers, text
from lab.controller import REPRISE
from lab.experiment import Experiment, ExperimentError, known, parse
from lab.files import write_whole
from lab.machine import session
from lab.netns import NamespaceError, require_namespaces
from lab.pages import compare_benchmarks
from lab.pages.compare import HEADER, Side, compared
from lab.pages.derive import REPORT, Derived, NothingMeasuredError, derive
from lab.pages.index import n_due_rows, rows_without_results, write_index
from lab.pages.readme import MarkerError
from lab.pages.report import NOT_JUDGED
from lab.process import REPOSITORY, ChildError, interrupt_on_termination
from lab.progress import clock
from lab.results.folder import EXPERIMENT, Folder, FolderError, folders
from lab.rows import ROWS, bmv2
from lab.sites import LOAD_CPU, SFU_CPU
from lab.study.keep import current_pages, keep
from lab.study.runner import planned_s, run_missing
from lab.study.suite import PIPELINE_BENCH, measurement_of
from lab.sudo import give_to_user
from lab.switch import SWITCH, MissingBuildError, require_build
from lab.terminal import StatusLine

RESULTS = REPOSITORY / "results"
THIS = REPOSITORY / "reprise-lab"
IN_NAMESPACES = REPOSITORY / "scripts" / "in-namespaces"
INSTALL_PACKAGES = REPOSITORY / "scripts" / "install-packages"
ALL = "all"
DEMO = "demo"
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
EPILOG = """\
A study is an experiment's file: those of the project are in lab/experiments/, and any other file
will do. Each run of a study makes a folder with raw samples, tables, figures and report.html.

  ./reprise-lab run multicast                 # about as long as `list` says
  ./reprise-lab run all --quick               # every row once, in a quarter of an hour
  ./reprise-lab run mine.yaml                 # docs/lab.md says how to write one
  ./reprise-lab run thesis --resume           # go on with what was interrupted
  ./reprise-lab compare studies/a studies/b
"""


def main(argv: Sequence[str] | None = None) -> int:
    interrupt_on_termination()
    typed = list(sys.argv[1:] if argv is None else argv)
    arguments = _parser().parse_args(typed)
    try:
        return _COMMANDS[arguments.command](arguments, typed)
    except NothingMeasuredError as error:
        print(f"reprise-lab: {error}", file=sys.stderr)
        return EXIT_FAILED
    except (FolderError, ExperimentError, MarkerError) as error:
        print(f"reprise-lab: {error}", file=sys.stderr)
        return EXIT_USAGE
    except BrokenPipeError:
        # Whoever reads the output has enough. What is left in the buffer goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except (NamespaceError, ChildError, MissingBuildError, OSError) as error:
        print(f"reprise-lab: {error}", file=sys.stderr)
        return EXIT_FAILED
    except KeyboardInterrupt:
        print("\nreprise-lab: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="./reprise-lab",
        description="Every SFU of the sources, measured side by side.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    results = argparse.ArgumentParser(add_help=False)
    results.add_argument("--results", type=Path, default=RESULTS, help="where runs' folders are")
    commands.add_parser("list", parents=[results], help="list experiments, rows and folders")
    run = commands.add_parser("run", parents=[results], help="run a study and make its report")
    run.add_argument(
        "study", metavar="STUDY", help=f"{', '.join(known())}, {ALL}, or an experiment's file"
    )
    run.add_argument("--quick", action="store_true", help="its short form")
    run.add_argument(
        "--resume",
        nargs="?",
        type=Path,
        const=Path(),
        metavar="DIR",
        help="continue a run in DIR; without DIR, the newest run of this study",
    )
    run.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="NAME",
        help="run only this row or benchmark; may be given several times",
    )
    run.add_argument(
        "--bmv2",
        type=Path,
        metavar="PATH/simple_switch",
        help=f"BMv2's rows, too; {bmv2.VARIABLE} in the environment does the same",
    )
    report = commands.add_parser("report", help="make a folder's tables, figures, report again")
    report.add_argument("folder", type=Path)
    compare = commands.add_parser("compare", help="compare two folders and show the differences")
    compare.add_argument("a", type=Path)
    compare.add_argument("b", type=Path)
    keep_it = commands.add_parser(
        "keep", help="copy a whole study to studies/; without a folder, update README's section"
    )
    keep_it.add_argument("folder", type=Path, nargs="?")
    index = commands.add_parser("index", help="make the page that lists all folders of a folder")
    index.add_argument("results", type=Path, nargs="?", default=REPOSITORY / "studies")
    return parser


def _list(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    rows = []
    for name, file in known().items():
        experiment = parse(file.read_text(), str(file))
        rows.append((name, _takes(experiment), experiment.about))
    print(text.table(("experiment", "takes about", "what"), rows))
    print()
    print(
        text.table(
            ("row", "source", "lacks"),
            [(name, row.source, row.lacks() or "nothing") for name, row in ROWS.items()],
        )
    )
    found = folders(arguments.results)
    if found:
        print()
        states = [(str(one.path), one.experiment.experiment, one.state) for one in found]
        print(text.table(("folder", "experiment", "state"), states))
    return 0


def _takes(experiment: Experiment) -> str:
    cells = [
        cell
        for part in experiment.loads
        for place in part.places()
        for cell in part.cells(place, {})
    ]
    benchmarks_s = sum(measurement_of(part).planned_s for part in experiment.benchmarks)
    return clock(planned_s(cells, experiment) + benchmarks_s)


def _run(arguments: argparse.Namespace, typed: Sequence[str]) -> int:
    if arguments.bmv2 is not None:
        if not os.access(arguments.bmv2, os.X_OK):
            raise ExperimentError(f"--bmv2: expected a program, found {arguments.bmv2}")
        os.environ[bmv2.VARIABLE] = str(arguments.bmv2.resolve())
    _check_only(arguments)
    _choose_processors(arguments)
    if os.geteuid() != 0:
        _install_packages(arguments)
        os.execv(IN_NAMESPACES, [str(IN_NAMESPACES), str(THIS), *typed])
    _install_packages(arguments)
    require_namespaces()
    require_build(SWITCH, REPRISE, *_benches(arguments))
    peers.build()
    if arguments.study == ALL:
        return _run_all(arguments, typed)
    return _run_one(_folder(arguments, arguments.study), arguments, typed)


def _benches(arguments: argparse.Namespace) -> list[Path]:
    """The benchmark programs that the study needs. `make demo` does not build them."""
    if arguments.study == ALL:
        return [PIPELINE_BENCH]
    parts = _experiment(arguments.study, is_quick=arguments.quick).benchmarks
    is_needed = any(part.measure in ("pipeline", "growth") for part in parts)
    return [PIPELINE_BENCH] if is_needed else []


def _choose_processors(arguments: argparse.Namespace) -> None:
    """Restarts this program if the experiment names other processors than the program uses."""
    if arguments.study == ALL:
        return
    wanted = _experiment(arguments.study, is_quick=arguments.quick).processors
    known_cpus = os.sched_getaffinity(0)
    default = (wanted.sfu, wanted.load) == (0, 1)
    if not default and not {wanted.sfu, wanted.load} <= known_cpus:
        raise ExperimentError(
            f"processors: expected some of {', '.join(map(str, sorted(known_cpus)))}, found "
            f"{wanted.sfu} and {wanted.load}"
        )
    if (wanted.sfu, wanted.load) != (SFU_CPU, LOAD_CPU):
        os.environ.update(REPRISE_SFU_CPU=str(wanted.sfu), REPRISE_LOAD_CPU=str(wanted.load))
        os.execv(sys.executable, [sys.executable, "-m", "lab.cli", *sys.argv[1:]])


def _run_all(arguments: argparse.Namespace, typed: Sequence[str]) -> int:
    """Runs each study into a folder of its own, then writes the page that lists them.

    With `--resume`, complete studies are left alone, interrupted ones continue, and the rest start.
    """
    if arguments.resume not in (None, Path()):
        raise FolderError(f"--resume of {ALL} takes no folder, found {arguments.resume}")
    code = 0
    made = []
    for name in known():
        if name == DEMO:  # the demo is a short form of the thesis' study
            continue
        print(f"reprise-lab: {name}", file=sys.stderr)
        newest = _newest(arguments, name) if arguments.resume is not None else None
        if newest is not None and newest.is_complete:
            made.append(newest)
            continue
        made.append(newest or _new(arguments, name))
        code = max(code, _run_one(made[-1], arguments, typed))
    lacking = sorted(rows_without_results(made))
    for name in lacking:
        print(f"no results of {name}: {ROWS[name].lacks() or 'see above'}", file=sys.stderr)
    if not lacking:
        print(f"every row has results ({n_due_rows()} rows)")
    print(write_index(arguments.results).resolve())
    return max(code, EXIT_FAILED if lacking else 0)


def _run_one(folder: Folder, arguments: argparse.Namespace, typed: Sequence[str]) -> int:
    with folder.alone():
        index = folder.add_session(session(["./reprise-lab", *typed]))
        show = StatusLine()
        try:
            run_missing(folder, index, show, only=arguments.only)
            show.end()
            return _report(folder)
        except BaseException:
            show.end()
            resuming = shlex.join(_resuming(folder, arguments))
            print(f"{folder.path}: go on: {resuming}", file=sys.stderr)
            raise
        finally:
            give_to_user(folder.path)


def _resuming(folder: Folder, arguments: argparse.Namespace) -> list[str]:
    """The command that goes on with an interrupted study."""
    command = ["./reprise-lab", "run", arguments.study]
    if arguments.study == ALL:
        quick = ["--quick"] if arguments.quick else []
        return [*command, *quick, "--resume", "--results", str(arguments.results)]
    return [*command, "--resume", str(folder.path)]


def _check_only(arguments: argparse.Namespace) -> None:
    """Rejects unknown names in `--only`: a misspelt name would silently leave everything out."""
    found = _experiments(arguments)
    rows = [name for one in found for part in one.loads for name in part.rows]
    choices = dict.fromkeys([*rows, *(part.part for one in found for part in one.benchmarks)])
    for name in arguments.only:
        if name not in choices:
            raise ExperimentError(f"--only: expected one of {', '.join(choices)}, found {name!r}")


def _install_packages(arguments: argparse.Namespace) -> None:
    """Installs the packages that rows lack. A row whose package cannot be installed is left out."""
    rows = {
        name
        for one in _experiments(arguments)
        for part in one.loads
        for name in part.rows
        if not arguments.only or name in arguments.only
    }
    for package in sorted({ROWS[name].packages for name in rows if ROWS[name].lacks()} - {""}):
        if subprocess.run([INSTALL_PACKAGES, package], check=False).returncode != 0:
            print(f"reprise-lab: going on without {package}", file=sys.stderr)


def _file_of(study: str) -> Path:
    file = known().get(study, Path(study))
    if not file.is_file():
        choices = ", ".join([*known(), ALL])
        raise ExperimentError(f"{study}: expected one of {choices}, or an experiment's file")
    return file


def _experiment(study: str, *, is_quick: bool) -> Experiment:
    file = _file_of(study)
    return parse(file.read_text(), str(file), is_quick=is_quick)


def _experiments(arguments: argparse.Namespace) -> list[Experiment]:
    names = known() if arguments.study == ALL else [arguments.study]
    return [_experiment(name, is_quick=arguments.quick) for name in names]


def _folder(arguments: argparse.Namespace, study: str) -> Folder:
    if arguments.resume is None:
        return _new(arguments, study)
    name = _experiment(study, is_quick=arguments.quick).experiment
    if arguments.resume != Path():
        folder = Folder.open(arguments.resume)
        if folder.experiment.experiment != name:
            raise FolderError(
                f"{folder.path} is a folder of {folder.experiment.experiment}, not of {name}"
            )
        return folder
    newest = _newest(arguments, study)
    if newest is None:
        raise FolderError(f"no folder of {name} under {arguments.results}")
    if newest.is_complete:
        raise FolderError(
            f"the newest folder of {name}, {newest.path}, is complete; --resume DIR goes on with "
            "an older one"
        )
    if (newest.path / EXPERIMENT).read_text() != _file_of(study).read_text():
        raise FolderError(
            f"{_file_of(study)} has changed since {newest.path} began; --resume {newest.path} goes "
            "on with what it was"
        )
    print(f"reprise-lab: going on with {newest.path}", file=sys.stderr)
    return newest


def _new(arguments: argparse.Namespace, study: str) -> Folder:
    file, now = _file_of(study), datetime.now().astimezone()
    return Folder.create(
        arguments.results, file.read_text(), str(file), now, is_quick=arguments.quick
    )


def _newest(arguments: argparse.Namespace, study: str) -> Folder | None:
    name = _experiment(study, is_quick=arguments.quick).experiment
    found = [
        folder
        for folder in reversed(folders(arguments.results))
        if folder.experiment.experiment == name and folder.is_quick == arguments.quick
    ]
    return found[0] if found else None


def _report(folder: Folder) -> int:
    for what, why in folder.not_measured.items():
        print(f"not measured: {what}: {why}", file=sys.stderr)
    derived = derive(folder)
    for line in _said(derived):
        print(line)
    print((folder.path / REPORT).resolve())
    return 0 if derived.holds and not folder.not_measured else EXIT_FAILED


def _said(derived: Derived) -> list[str]:
    lines = []
    for check in derived.checks:
        lines.append(f"{'holds' if check.holds else 'FAILS'}: {check.name} ({check.n_rows} runs)")
        lines += [f"  {failure}" for failure in check.failures]
    for promise in derived.promises:
        word = promise.word if derived.is_judged(promise) else NOT_JUDGED
        lines.append(f"{word}: {promise.name}")
        lines += [f"  {value}" for value in promise.found.split("; ")]
    return lines


def _make_report(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    return _report(Folder.open(arguments.folder))


def _compare(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    a, b = (Folder.open(path) for path in (arguments.a, arguments.b))
    print(f"A: {a.path}\nB: {b.path}\n")
    of_loads = compared(*(Side(one.experiment, [*one.runs()]) for one in (a, b)))
    of_benchmarks = compare_benchmarks.compared(a.benchmark_files(), b.benchmark_files())
    if of_loads:
        print(text.table(HEADER, of_loads))
    if of_benchmarks:
        print(text.table(compare_benchmarks.HEADER, of_benchmarks))
    if not of_loads and not of_benchmarks:
        raise NothingMeasuredError(f"{a.path} and {b.path} have nothing that was measured")
    return 0


def _keep(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    if arguments.folder is not None:
        print(keep(Folder.open(arguments.folder)))
    for page, content in current_pages().items():
        write_whole(page, content)
        print(page)
    return 0


def _index(arguments: argparse.Namespace, _: Sequence[str]) -> int:
    print(write_index(arguments.results).resolve())
    return 0


_COMMANDS = {
    "list": _list,
    "run": _run,
    "report": _make_report,
    "compare": _compare,
    "keep": _keep,
    "index": _index,
}


if __name__ == "__main__":
    sys.exit(main())
