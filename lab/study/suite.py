"""The benchmarks: how each is run, and how long it takes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.bench import joins, kernel, matrix, mixers, overload, pktswitch, priority, scaling
from lab.bench.cells import RAW, Failures, PlannedCell
from lab.bench.forwarders import Forwarder
from lab.bench.matrix import Choice
from lab.bench.search import QUICK, Effort
from lab.experiment import Benchmark
from lab.neobft import measure as neobft
from lab.pisces import measure as pisces
from lab.pisces import switching
from lab.process import run
from lab.sites import SFU_CPU
from lab.switch import RELEASE, require_build

PIPELINE_BENCH = RELEASE / "reprise-pipeline-bench"
PIPELINE_TIMEOUT_S = 900.0
OVERLOADED = ("replication", "recirculation native afxdp", "pktswitch_bypass afxdp", "bmv2")
OVERLOAD_OFFERED = (0.1, 0.5, 0.9, 1.0, 2.0, 4.0, 10.0)
OVERLOAD_STEP_S = 0.25
PKTSWITCH_FANOUTS = (1, 64)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A benchmark that is ready to run.

    `run` writes its files into the folder. It returns what could not be measured and why, and
    raises no exception if a row cannot run here.
    """

    planned_s: float
    run: Callable[[Path], Failures]
    needs_root: bool = True


def _named(forwarders: Sequence[Forwarder], words: Sequence[str]) -> list[Forwarder]:
    return [one for one in forwarders if any(word in str(one) for word in words)]


def _pipeline(command: str, part: Benchmark) -> Measurement:
    def measure(folder: Path) -> Failures:
        require_build(PIPELINE_BENCH)
        raw = folder / RAW
        raw.mkdir(exist_ok=True)
        argv = [str(PIPELINE_BENCH), command, "--cpu", str(SFU_CPU), "--output", str(raw)]
        run([*argv, *(["--quick"] if part.short else [])], timeout_s=PIPELINE_TIMEOUT_S)
        (raw / part.file).rename(folder / part.file)
        return []

    planned_s = 10.0 if part.short else 60.0
    return Measurement(planned_s, measure, needs_root=False)


def _fanout(part: Benchmark) -> Measurement:
    choice = Choice(part.only, part.fanouts, part.rounds, part.trial_s, part.rows)
    todo = matrix.cells(choice, is_quick=part.short)
    return Measurement(
        sum(cell.planned_s for cell in todo),
        lambda folder: matrix.run(folder, todo),
    )


def _overload(part: Benchmark) -> Measurement:
    words = part.only or (("replication native afxdp",) if part.short else OVERLOADED)
    chosen = _named(overload.forwarders(), words)
    fanouts = part.fanouts or (overload.FANOUTS[:1] if part.short else overload.FANOUTS)
    offered = OVERLOAD_OFFERED[::3] if part.short else OVERLOAD_OFFERED
    step_s = OVERLOAD_STEP_S + overload.SPARE_S
    n_steps = overload.SWEEPS * len(offered) + 2 * overload.PAIRS + 4
    return Measurement(
        len(chosen) * len(fanouts) * (n_steps * step_s + overload.CAPACITY_S),
        lambda folder: overload.run(
            folder, chosen, fanouts=fanouts, offered=offered, seconds=OVERLOAD_STEP_S
        ),
    )


def _priority(part: Benchmark) -> Measurement:
    chosen = _named(priority.forwarders(), part.only or ("native afxdp",))
    fanouts = part.fanouts or tuple(priority.OFFERED)[: 1 if part.short else None]
    return Measurement(
        priority.CELL_S * len(chosen) * len(fanouts),
        lambda folder: priority.run(folder, chosen, fanouts),
    )


def _pktswitch(part: Benchmark) -> Measurement:
    short = "pktswitch_sockets udp sleep to pktswitch_bypass"
    words = part.only or (short if part.short else "udp sleep",)
    chosen = [step for step in pktswitch.steps() if any(word in str(step) for word in words)]
    effort = QUICK if part.short else Effort(part.trial_s)
    fanouts = part.fanouts or PKTSWITCH_FANOUTS[: 1 if part.short else None]
    return Measurement(
        pktswitch.cell_s(effort) * len(chosen) * len(fanouts),
        lambda folder: pktswitch.run(folder, chosen, fanouts, effort),
    )


def _in_sets(
    cells: Callable[..., Sequence[PlannedCell]],
    measure: Callable[[Path, Sequence[PlannedCell]], Failures],
) -> Callable[[Benchmark], Measurement]:
    """Returns a function that prepares a benchmark which is measured in sets.

    The benchmark measures the cells whose names contain one of the words in the part's `only`. A
    cell is one combination of what is measured and how.
    """

    def measurement(part: Benchmark) -> Measurement:
        every = cells(part.rounds, part.trial_s, is_quick=part.short)
        words = part.only or ("",)
        todo = [cell for cell in every if any(word in str(cell) for word in words)]
        return Measurement(
            sum(cell.planned_s for cell in todo), lambda folder: measure(folder, todo)
        )

    return measurement


def _kernel(part: Benchmark) -> Measurement:
    cells = partial(kernel.cells, fanouts=part.fanouts)
    return _in_sets(cells, kernel.run)(part)


def _neobft(part: Benchmark) -> Measurement:
    effort = neobft.QUICK if part.short else neobft.Effort()
    return Measurement(effort.planned_s, lambda folder: neobft.run_study(folder, effort))


def _of_cells(
    cells: Callable[..., Sequence[PlannedCell]],
    measure: Callable[[Path, Sequence[PlannedCell]], Failures],
) -> Callable[[Benchmark], Measurement]:
    """Returns a function that prepares a benchmark in which each cell is measured once.

    The benchmark measures the cells whose names contain one of the words in the part's `only`.
    """

    def measurement(part: Benchmark) -> Measurement:
        words = part.only or ("",)
        every = cells(is_quick=part.short)
        todo = [cell for cell in every if any(word in str(cell) for word in words)]
        return Measurement(
            sum(cell.planned_s for cell in todo), lambda folder: measure(folder, todo)
        )

    return measurement


MEASUREMENTS: dict[str, Callable[[Benchmark], Measurement]] = {
    "pipeline": partial(_pipeline, "parts"),
    "growth": partial(_pipeline, "growth"),
    "fanout": _fanout,
    "overload": _overload,
    "priority": _priority,
    "pktswitch": _pktswitch,
    "kernel": _kernel,
    "switching": _in_sets(switching.cells, switching.run),
    "scaling": _in_sets(scaling.cells, scaling.run),
    "pisces": _in_sets(pisces.cells, pisces.run),
    "neobft": _neobft,
    "mixers": _of_cells(mixers.cells, mixers.run),
    "joins": _of_cells(joins.cells, joins.run),
}


def measurement_of(part: Benchmark) -> Measurement:
    return MEASUREMENTS[part.measure](part)
