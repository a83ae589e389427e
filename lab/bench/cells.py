"""Makes the measurements (cells) of a benchmark one by one; writes its files after each."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lab import peers
from lab.bench.trials import Probe
from lab.controller import REPRISE
from lab.csvs import csv_text, lines_of
from lab.files import write_whole
from lab.netns import require_namespaces
from lab.process import ChildError
from lab.progress import bar
from lab.results.benchmarks import BenchmarkRow
from lab.results.statistics import merged_sets
from lab.switch import SWITCH, require_build
from lab.terminal import rewrite


class Planned(Protocol):
    """A cell with an estimate of its duration."""

    @property
    def planned_s(self) -> float: ...


Cell = TypeVar("Cell")
PlannedCell = TypeVar("PlannedCell", bound=Planned)
Row = TypeVar("Row", bound=BenchmarkRow)
Failures = list[str]
"""A line for each thing that could not be measured, with the reason."""
RAW = "raw"
"""The folder of raw samples, inside a benchmark's folder. The files that are derived from the
samples are in the benchmark's folder itself."""


def prepare() -> None:
    require_namespaces()
    require_build(SWITCH, REPRISE)
    peers.build()


def each(
    cells: Sequence[Cell],
    cell_s: float,
    failures: Failures,
    label: Callable[[Cell], str] = str,
) -> Iterator[Cell]:
    """Yields the cells one after the other and shows a progress bar.

    `cell_s` is the time of a cell that the bar assumes until the first cell is done. The caller
    adds a line to `failures` for each thing that could not be measured.
    """
    began_s = time.monotonic()
    for number, cell in enumerate(cells):
        taken_s = time.monotonic() - began_s
        left_s = (taken_s / number if number else cell_s) * (len(cells) - number)
        what = label(cell) + (f", {len(failures)} failed" if failures else "")
        rewrite(bar(number, len(cells), left_s, what))
        yield cell
    rewrite("")


def measured(
    file: Path,
    kind: type[Any],
    cells: Sequence[Cell],
    measure: Callable[[Cell], Iterable[object]],
    *,
    cell_s: float,
    label: Callable[[Cell], str] = str,
) -> Failures:
    """Measures cells, and writes their rows to a file after each cell. Returns the failures."""
    rows: list[object] = []
    failures: Failures = []
    for cell in each(cells, cell_s, failures, label):
        try:
            rows += measure(cell)
        except ChildError as error:
            failures.append(f"{label(cell)}: {error}")
        write_whole(file, csv_text(kind, rows))
    return failures


def measured_sets(
    place: tuple[Path, str],
    kind: type[Row],
    cells: Sequence[PlannedCell],
    measure: Callable[[PlannedCell, list[Probe]], Iterable[Row]],
    *,
    unit: str = "copies",
    sets: str = "rounds",
    lacking: Iterable[str] = (),
) -> Failures:
    """Measures a benchmark's sets of trials, one set in each cell. Returns why cells failed.

    `place` is a folder and a name, NAME. Rows are written to NAME-rounds.csv (the parameter `sets`
    may give another word than "rounds"), and every trial to raw/NAME-probes.csv. At the end the
    sets that measured the same thing are merged into NAME.csv.
    """
    folder, name = place
    rows: list[Row] = []
    probes: list[Probe] = []
    failures: Failures = [why for why in lacking if why]
    for cell in each(cells, cells[0].planned_s if cells else 0.0, failures):
        try:
            rows += measure(cell, probes)
        except ChildError as error:
            failures.append(f"{cell}: {error}")
        write_whole(folder / f"{name}-{sets}.csv", csv_text(kind, rows))
        text = lines_of([probe.columns(unit) for probe in probes])
        write_whole(folder / RAW / f"{name}-probes.csv", text)
    write_whole(folder / f"{name}.csv", csv_text(kind, merged_sets(rows, kind.names)))
    return failures


def label_of(cell: tuple[object, int]) -> str:
    return f"{cell[0]}, {cell[1]} copies"
