"""The experiments of `make bench`: what each writes, how long it takes, how it is run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.bench import matrix
from lab.bench.experiment import Failures
from lab.bench.matrix import Choice


@dataclass(frozen=True, slots=True)
class Experiment:
    """One part of the benchmark.

    `run` writes `file` into the folder when it is whole, and returns what it could not measure and
    why: that a row is lacking is no exception.
    """

    name: str
    about: str
    file: str
    planned_s: float
    run: Callable[[Path], Failures]
    needs_root: bool = True


def experiments(choice: Choice, *, is_quick: bool = False) -> list[Experiment]:
    """All of them, in the order in which they are run."""
    return [_fanout(choice, is_quick=is_quick)]


def _fanout(choice: Choice, *, is_quick: bool) -> Experiment:
    todo = matrix.cells(choice, is_quick=is_quick)
    return Experiment(
        name="fanout",
        about="one packet in, n copies out: rates, delays, processor time, beside peers",
        file="fanout.csv",
        planned_s=matrix.CELL_S * len(todo),
        run=lambda folder: matrix.run(folder, todo),
    )
