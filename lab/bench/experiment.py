"""The common parts of all benchmarks: needs, progress, CSV; and the soak's own command."""

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, fields, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar, cast

from lab import peers
from lab.bench.forwarders import Forwarder
from lab.controller import REPRISE
from lab.csvs import text_of
from lab.netns import NamespaceError, require_namespaces
from lab.process import REPOSITORY, ChildError, interrupt_on_termination
from lab.rows import bmv2
from lab.study.machine import session
from lab.study.progress import bar
from lab.switch import SWITCH, MissingBuildError, require_build

Cell = TypeVar("Cell")
Row = TypeVar("Row")
Failures = list[str]
"""What could not be measured, and why, a line each."""


def prepare() -> None:
    """Builds the peers; raises the message for `run_alone` if something is lacking."""
    require_namespaces()
    require_build(SWITCH, REPRISE)
    peers.build()


def new_folder(results: Path, kind: str) -> Path:
    """`results/<kind>-<time>/` with the facts about machine and command in it."""
    folder = results / f"{kind}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    folder.mkdir(parents=True)
    facts = session(sys.argv)
    (folder / "session.json").write_text(json.dumps(facts, indent=1) + "\n")
    return folder


def each(
    cells: Sequence[Cell],
    cell_s: float,
    failures: Failures,
    label: Callable[[Cell], str] = str,
) -> Iterator[Cell]:
    """The cells one after the other, under a progress bar; `cell_s` is only its first guess.

    The caller adds to `failures` what could not be measured, and goes on.
    """
    began_s = time.monotonic()
    for number, cell in enumerate(cells):
        taken_s = time.monotonic() - began_s
        left_s = (taken_s / number if number else cell_s) * (len(cells) - number)
        what = label(cell) + (f", {len(failures)} failed" if failures else "")
        line = "\r\033[K" + bar(number, len(cells), left_s, what)
        print(line, end="", file=sys.stderr, flush=True)
        yield cell
    print("\r\033[K", end="", file=sys.stderr)


def measured(
    file: Path,
    kind: type[Row],
    cells: Sequence[Cell],
    measure: Callable[[Cell], Sequence[Row]],
    *,
    cell_s: float,
    label: Callable[[Cell], str],
) -> tuple[list[Row], Failures]:
    """The rows of all cells, which stand in the file as soon as there are some."""
    rows: list[Row] = []
    failures: Failures = []
    for cell in each(cells, cell_s, failures, label):
        try:
            rows += measure(cell)
        except ChildError as error:
            failures.append(f"{label(cell)}: {error}")
        file.write_text(csv_text(kind, rows))
    return rows, failures


def csv_text(kind: type[Any], rows: Sequence[Any]) -> str:
    """Dataclasses of `kind` under their header; a value that was not measured is an empty cell."""

    def cell(value: object) -> str:
        if isinstance(value, float):
            return "" if math.isnan(value) else f"{value:.6g}"
        return str(value)

    names = [field.name for field in fields(kind)]
    body = [[cell(value) for value in asdict(row).values()] for row in rows]
    return text_of([names, *body])


def median(values: Sequence[float]) -> float:
    """Of those that were measured; not a number where none was."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.median(known) if known else math.nan


def merged(
    runs: Sequence[Row],
    medians: Sequence[str],
    sums: Sequence[str],
    maxima: Sequence[str] = (),
) -> Row:
    """Runs of the same thing as one row, column by column; the other columns are the first's."""
    whole: Sequence[tuple[Sequence[str], Callable[[list[Any]], Any]]] = (
        (medians, median),
        (sums, sum),
        (maxima, max),
    )
    changed: dict[str, Any] = {
        column: one_of([getattr(run, column) for run in runs])
        for columns, one_of in whole
        for column in columns
    }
    return cast("Row", replace(cast("Any", runs[0]), **changed))


def matching(forwarders: Sequence[Forwarder], words: Sequence[str]) -> list[Forwarder]:
    """Those with one of the words in their name; all when there are none."""
    return [one for one in forwarders if not words or any(word in str(one) for word in words)]


def label_of(cell: tuple[Forwarder, int]) -> str:
    """A forwarder and a fan-out for people."""
    forwarder, fanout = cell
    return f"{forwarder}, {fanout} copies"


def command_line(
    module: str,
    description: str | None,
    epilog: str,
    forwarders: Callable[[], Sequence[Forwarder]] = list,
) -> argparse.ArgumentParser:
    """The options of all experiments; `epilog` names the duration and the files."""
    names = "\n".join(f"  {forwarder}" for forwarder in forwarders())
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        epilog=f"{epilog}\n\nforwarders:\n{names}" if names else epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    if names:
        add_bmv2(parser)
        parser.add_argument(
            "--only",
            nargs="+",
            default=[],
            metavar="WORDS",
            help="forwarders whose name (below) holds one of these, such as 'native afxdp'",
        )
    parser.add_argument(
        "--results", type=Path, default=REPOSITORY / "results", help="where its folder is made"
    )
    return parser


def add_fanouts(parser: argparse.ArgumentParser, default: Sequence[int]) -> None:
    """The option that chooses the fan-outs."""

    def positive(text: str) -> int:
        if not text.isdecimal() or int(text) == 0:
            raise argparse.ArgumentTypeError(f"expected a number above 0, found {text!r}")
        return int(text)

    parser.add_argument("--fanouts", type=positive, nargs="+", default=list(default), metavar="N")


def add_bmv2(parser: argparse.ArgumentParser) -> None:
    """The option that adds BMv2's rows."""

    def note(path: str) -> Path:
        if not os.access(path, os.X_OK):
            raise argparse.ArgumentTypeError(f"expected a program, found {path!r}")
        os.environ[bmv2.VARIABLE] = str(Path(path).resolve())
        return Path(path)

    parser.add_argument(
        "--bmv2",
        type=note,
        metavar="PATH/simple_switch",
        help=f"measure BMv2's simple_switch too; {bmv2.VARIABLE} in the environment does the same",
    )


def chosen_of(
    parser: argparse.ArgumentParser,
    said: argparse.Namespace,
    forwarders: Callable[[], Sequence[Forwarder]],
) -> list[Forwarder]:
    """The choices that `--only` leaves; ends the program if there are none."""
    chosen = matching(forwarders(), said.only)
    if not chosen:
        parser.error("--only: no forwarder has one of these in its name; --help lists them")
    return chosen


def run_alone(
    kind: str,
    results: Path,
    experiment: Callable[[Path], Failures],
    *,
    complaint: str = "not measured",
) -> int:
    """One experiment into a folder of its own, for its command; the exit code."""
    interrupt_on_termination()
    try:
        prepare()
    except (NamespaceError, MissingBuildError, ChildError) as error:
        print(f"lab.bench: {error}", file=sys.stderr)
        return 1
    folder = new_folder(results, kind)
    try:
        failures = experiment(folder)
    except KeyboardInterrupt:
        print(f"\ninterrupted; what was measured is in {folder}", file=sys.stderr)
        return 130
    for failure in failures:
        print(f"{complaint}: {failure}", file=sys.stderr)
    print(folder)
    return 1 if failures else 0
