"""The folder of a study.

    experiment.yaml   a copy of the experiment; with study.json it makes a folder a study's
    NAME.py           the user's own rows, which are SFUs to measure (`rows_from`)
    study.json        the number of the format; for each session its command, commit, machine and
                      versions, and what was not measured and why
    raw/RUN.json.xz   all results of a run; a run with this file is done
    fanout.csv ...    a benchmark's results, one a line; its raw samples are in raw/
    logs/             the logs of the last session's processes
    runs.csv ...      derived files, which `./reprise-lab report` makes again

Files are written under another name and then renamed, so that no file is ever incomplete. A run's
samples are stored as columns, each with its first value and then the differences between successive
values. Times are in units of 100 ns. Delays of 1 ms and more are rounded to four digits; in some
kept studies, delays of 100 us and more are rounded to three digits. Stored like this, the numbers
take a third of the bytes, and the rounding loses no more than the meter's own error.
"""

import json
import lzma
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeVar

from lab.experiment import Benchmark, Cell, Experiment, Place, parse
from lab.files import alone, write_whole
from lab.meter import EmptyLoop, Sample, Seen, Slot, totals_of
from lab.process import deaf_to_signals
from lab.results.benchmarks import FILES
from lab.rows import ROWS

FORMAT = 3
EXPERIMENT = "experiment.yaml"
STUDY = "study.json"
UNIT_NS = 100
DIGITS = 4
SUM, MEAN = "sum_ns", "mean_ns"
COUNTS = {Sample: "copies", Slot: "timed"}
"""For each kind of line, the column with the number of copies over which the line's sum is taken.

In files, means (the sums divided by this number) are stored instead of sums.
"""

Line = TypeVar("Line", Sample, Slot)


class FolderError(RuntimeError):
    """The folder is not a study's, its study cannot be continued, or a new one has its name."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about a run (of an SFU, a "row") that the meter does not report."""

    started: str
    session: int
    repeated_because: tuple[str, ...]
    sfu_cpu_s: float
    """The processor time of the row's processes, including their system calls."""
    sfu_kernel_cpu_s: float | None
    """The kernel's part of `sfu_cpu_s`; None if unknown.

    It is estimated: `sfu_cpu_s` times the kernel's share of the processes' time since they began.
    """
    interrupts_s: float
    """The time that the SFU's processor spent in interrupts; the kernel counts whole ticks."""
    sample_every: int
    planned_s: float
    """The planned time from the first packet to the last."""
    is_broken: bool
    """Whether copies are missing, the percentile of the packets' delays until their last copies is
    above the limit (both are the part's), or the load generator could not keep its pace."""


@dataclass(frozen=True, slots=True)
class Run:
    cell: Cell
    facts: Facts
    empty_loop: EmptyLoop
    seen: Seen


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._experiment: Experiment | None = None
        self._broken: dict[str, bool] = {}

    @classmethod
    def create(
        cls, results: Path, text: str, name: str, now: datetime, *, is_quick: bool = False
    ) -> "Folder":
        """Makes a folder under `results`, named after the experiment and the time."""
        experiment = parse(text, name, is_quick=is_quick)
        folder = cls(results / f"{experiment.experiment}-{now:%Y%m%d-%H%M%S}")
        try:
            folder.path.mkdir(parents=True)
        except FileExistsError:
            raise FolderError(f"{folder.path} exists: another study began this second") from None
        for file in experiment.beside:
            write_whole(folder.path / file, Path(name).with_name(file).read_bytes())
        # `rows_from` can import the modules in the folder of the experiment's own file.
        original = str(Path(name).resolve())
        folder._write({"format": FORMAT, "quick": is_quick, "sessions": [], "original": original})
        write_whole(folder.path / EXPERIMENT, text)
        return folder

    @classmethod
    def open(cls, path: Path) -> "Folder":
        folder = cls(path)
        if not folder.is_of_this_format:
            found = folder._read().get("format")
            raise FolderError(f"{path}: expected format {FORMAT}, found {found}")
        if not (path / EXPERIMENT).exists():
            raise FolderError(f"{path} is no folder of a study: no {EXPERIMENT}")
        return folder

    @property
    def is_of_this_format(self) -> bool:
        return self._read().get("format") == FORMAT

    @property
    def experiment(self) -> Experiment:
        if self._experiment is None:
            file = self.path / EXPERIMENT
            original = self._read().get("original")
            self._experiment = parse(
                file.read_text(),
                str(file),
                is_quick=self.is_quick,
                original=Path(original) if original else None,
            )
        return self._experiment

    @property
    def is_quick(self) -> bool:
        return bool(self._read()["quick"])

    @property
    def sessions(self) -> list[dict[str, Any]]:
        sessions: list[dict[str, Any]] = self._read()["sessions"]
        return sessions

    def add_session(self, session: Mapping[str, str]) -> int:
        """Records that a session begins; returns its index."""
        sessions = [*self.sessions, {**session, "not_measured": {}}]
        self._write({**self._read(), "sessions": sessions})
        return len(sessions) - 1

    def forget_original(self) -> None:
        """Removes the path of the experiment's file, which means nothing on other machines."""
        self._write({key: value for key, value in self._read().items() if key != "original"})

    def note_not_measured(self, session: int, what: str, why: str) -> None:
        """Records what could not be measured and why.

        Removes the folder's path from the reason, because the folder may move.
        """
        sessions = self.sessions
        sessions[session]["not_measured"][what] = why.replace(f"{self.path}/", "")
        self._write({**self._read(), "sessions": sessions})

    @property
    def not_measured(self) -> dict[str, str]:
        """The rows and runs that the last session could not measure, each with the reason."""
        sessions = self.sessions
        return dict(sessions[-1]["not_measured"]) if sessions else {}

    def is_done(self, cell: Cell) -> bool:
        return self._file(cell).exists()

    def places(self) -> list[Place]:
        """All places, each for a row in one of its variants.

        Places of optional rows are included only if they have results or if the row can run here.
        """
        return [
            place
            for place in self.experiment.places()
            if not ROWS[place.row].is_optional
            or not ROWS[place.row].lacks()
            or any((self.path / "raw").glob(f"{place.name}-*"))
        ]

    def missing_at(self, place: Place) -> list[Cell]:
        """The runs of a place that are still to be done, in order, as far as they are known."""
        return [cell for cell in self.cells_at(place) if not self.is_done(cell)]

    def missing(self) -> list[Cell]:
        return [cell for place in self.places() for cell in self.missing_at(place)]

    def cells_at(self, place: Place) -> list[Cell]:
        """The runs of a place, done or not, as far as they are known.

        Later runs may not be known yet, because their numbers of participants may depend on
        results.
        """
        part = self.experiment.part(place.part)
        broken: dict[int, bool] = {}
        while True:
            cells = part.cells(place, broken)
            new = {cell.participants for cell in cells if cell.participants not in broken}
            done = {
                size: self._is_broken([cell for cell in cells if cell.participants == size])
                for size in sorted(new)
                if all(self.is_done(cell) for cell in cells if cell.participants == size)
            }
            if not done:
                return cells
            broken.update(done)

    @property
    def is_complete(self) -> bool:
        return not self.missing() and not self.missing_benchmarks()

    @property
    def state(self) -> str:
        n_missing = len(self.missing()) + len(self.missing_benchmarks())
        if not n_missing:
            return "complete"
        return f"{n_missing} {'run' if n_missing == 1 else 'runs'} missing"

    def missing_benchmarks(self) -> list[Benchmark]:
        return [part for part in self.experiment.benchmarks if not (self.path / part.file).exists()]

    def keep_benchmark(self, work: Path, file: str) -> None:
        """Copies a benchmark's files into the folder.

        `file`, which marks the benchmark as done, is copied last.
        """
        with deaf_to_signals():
            for source in sorted(work.rglob("*"), key=lambda path: path.name == file):
                target = self.path / source.relative_to(work)
                if not source.is_file():
                    continue
                content = source.read_bytes()
                if target.parent != self.path:
                    target = target.with_name(f"{target.name}.xz")
                    content = lzma.compress(content, preset=6)
                write_whole(target, content)

    def benchmark_files(self) -> dict[str, str]:
        return {
            name: (self.path / name).read_text() for name in FILES if (self.path / name).exists()
        }

    def keep(self, run: Run, digits: int = DIGITS) -> None:
        """Writes a finished run, with delays rounded to `digits`."""
        content = {
            "cell": asdict(run.cell),
            "facts": asdict(run.facts),
            "empty_loop": asdict(run.empty_loop),
            "totals": asdict(run.seen.totals),
            "samples": _columns(Sample, run.seen.samples, digits),
            "slots": _columns(Slot, run.seen.slots, digits),
        }
        text = json.dumps(content, separators=(",", ":"))
        write_whole(self._file(run.cell), lzma.compress(text.encode(), preset=6))

    def run(self, cell: Cell) -> Run:
        try:
            content = json.loads(lzma.decompress(self._file(cell).read_bytes()))
            return _run(cell, content)
        except (lzma.LZMAError, EOFError, ValueError, KeyError, TypeError) as error:
            raise FolderError(
                f"{self._file(cell)}: expected a run as it was written, found a damaged file "
                f"({error}); remove it to have the run done again"
            ) from None

    def runs(self) -> Iterator[Run]:
        for place in self.places():
            for cell in sorted(self.cells_at(place), key=lambda one: (one.participants, one.run)):
                if self.is_done(cell):
                    yield self.run(cell)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Locks the folder, so that no other process measures into it during the block."""
        with alone(self.path) as is_alone:
            if not is_alone:
                raise FolderError(f"{self.path}: another process is measuring into it")
            yield

    @contextmanager
    def work(self) -> Iterator[Path]:
        """Yields an empty folder for unfinished files, which is removed after the block."""
        place = self.path / ".work"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        try:
            yield place
        finally:
            with deaf_to_signals():
                shutil.rmtree(place, ignore_errors=True)

    def _is_broken(self, cells: Sequence[Cell]) -> bool:
        """Whether more than half of the runs are broken.

        One run alone may be broken by chance, when another program took the processor.
        """
        for cell in cells:
            if cell.name not in self._broken:
                self._broken[cell.name] = self.run(cell).facts.is_broken
        return 2 * sum(self._broken[cell.name] for cell in cells) > len(cells)

    def _file(self, cell: Cell) -> Path:
        return self.path / "raw" / f"{cell.name}.json.xz"

    def _read(self) -> dict[str, Any]:
        file = self.path / STUDY
        try:
            content: dict[str, Any] = json.loads(file.read_text())
        except FileNotFoundError:
            raise FolderError(f"{self.path} is no folder of a study: no {STUDY}") from None
        except json.JSONDecodeError as error:
            raise FolderError(f"{file}: {error}") from None
        return content

    def _write(self, content: Mapping[str, object]) -> None:
        write_whole(self.path / STUDY, json.dumps(content, indent=1) + "\n")


def _run(cell: Cell, content: dict[str, Any]) -> Run:
    facts = content["facts"]
    facts["repeated_because"] = tuple(facts["repeated_because"])
    seen = Seen(
        totals_of(content["totals"]),
        _lines(Sample, content["samples"]),
        _lines(Slot, content["slots"]),
    )
    return Run(cell, Facts(**facts), EmptyLoop(**content["empty_loop"]), seen)


def _columns(kind: type[Line], lines: Sequence[Line], digits: int) -> dict[str, list[int]]:
    columns = {field.name: [getattr(line, field.name) for line in lines] for field in fields(kind)}
    counts = columns[COUNTS[kind]]
    columns[MEAN] = [
        round(total / count) if count else 0
        for total, count in zip(columns.pop(SUM), counts, strict=True)
    ]
    return {name: _differences(_rounded(name, column, digits)) for name, column in columns.items()}


def _rounded(name: str, column: Sequence[int], digits: int) -> Sequence[int]:
    """Rounds a column of times to units of `UNIT_NS`, and delays also to `digits` digits.

    Times of sending grow with the run, so they keep all digits.
    """
    if not name.endswith("_ns"):
        return column
    units = [round(value / UNIT_NS) for value in column]
    return units if name == "sent_ns" else [_to_digits(value, digits) for value in units]


def _to_digits(value: int, digits: int) -> int:
    place: int = 10 ** max(0, len(str(abs(value))) - digits)
    return round(value / place) * place


def _differences(column: Sequence[int]) -> list[int]:
    return [value - before for before, value in pairwise([0, *column])]


def _lines(kind: type[Line], columns: Mapping[str, Sequence[int]]) -> tuple[Line, ...]:
    found = {name: list(accumulate(column)) for name, column in columns.items()}
    for name, column in found.items():
        if name.endswith("_ns"):
            found[name] = [value * UNIT_NS for value in column]
    means, counts = found.pop(MEAN), found[COUNTS[kind]]
    found[SUM] = [mean * count for mean, count in zip(means, counts, strict=True)]
    ordered = (found[field.name] for field in fields(kind))
    return tuple(kind(*line) for line in zip(*ordered, strict=True))


def thinned(run: Run, samples_max: int) -> Run:
    """Keeps every n-th sample of each stream, leaving some `samples_max` in all."""
    every = -(-len(run.seen.samples) // samples_max)
    counts: Counter[int] = Counter()
    samples = []
    for sample in run.seen.samples:
        if counts[sample.stream] % every == 0:
            samples.append(sample)
        counts[sample.stream] += 1
    facts = replace(run.facts, sample_every=run.facts.sample_every * every)
    return replace(run, facts=facts, seen=replace(run.seen, samples=tuple(samples)))


def folders(results: Path) -> list[Folder]:
    """All study folders under `results` that have the current format, ordered by name."""
    found = (Folder(file.parent) for file in sorted(results.glob(f"*/{EXPERIMENT}")))
    return [folder for folder in found if folder.is_of_this_format]
