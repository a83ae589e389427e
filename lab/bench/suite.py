"""The benchmarks: their files, their duration, and how they are run."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from lab.bench import kernel, matrix, overload, pktswitch, priority, scaling, switching
from lab.bench.experiment import Failures
from lab.bench.forwarders import Forwarder
from lab.bench.matrix import RAW, Choice
from lab.bench.search import QUICK, Effort
from lab.experiment import Benchmark
from lab.neobft import measure as neobft
from lab.pisces import measure as pisces
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
    """A benchmark.

    `run` writes `file` into the folder and returns what it could not measure and why: that a row
    is lacking is no exception.
    """

    file: str
    planned_s: float
    run: Callable[[Path], Failures]
    needs_root: bool = True


FILES = {
    "pipeline": "pipeline.csv",
    "growth": "growth.csv",
    "fanout": "fanout.csv",
    "overload": "overload.csv",
    "priority": "priority.csv",
    "pktswitch": "pktswitch.csv",
    "kernel": "kernel.csv",
    "switching": "switching.csv",
    "scaling": "scaling.csv",
    "pisces": "pisces.csv",
    "neobft": "neobft.csv",
}
"""What each writes last: a benchmark with this file is done."""


def _named(forwarders: Sequence[Forwarder], words: Sequence[str]) -> list[Forwarder]:
    return [one for one in forwarders if any(word in str(one) for word in words)]


def _pipeline(command: str, part: Benchmark) -> Measurement:
    def measure(folder: Path) -> Failures:
        require_build(PIPELINE_BENCH)
        raw = folder / RAW
        raw.mkdir(exist_ok=True)
        argv = [str(PIPELINE_BENCH), command, "--cpu", str(SFU_CPU), "--output", str(raw)]
        run([*argv, *(["--quick"] if part.short else [])], timeout_s=PIPELINE_TIMEOUT_S)
        (raw / FILES[part.measure]).rename(folder / FILES[part.measure])
        return []

    planned_s = 10.0 if part.short else 60.0
    return Measurement(FILES[part.measure], planned_s, measure, needs_root=False)


def tsc_mhz(folder: Path) -> str:
    """The frequency of the time stamp counter, as the pipelines' benchmark measured it."""
    for name in ("pipeline", "growth"):
        file = folder / RAW / f"{name}.json"
        if file.exists():
            hertz = json.loads(file.read_text())["tsc_hz"]
            return f"{hertz / 1e6:.0f}" if hertz else "no such counter"
    return "not measured"


def _fanout(part: Benchmark) -> Measurement:
    choice = Choice(part.only, part.fanouts, part.rounds, part.trial_s, part.rows)
    todo = matrix.cells(choice, is_quick=part.short)
    return Measurement(
        FILES[part.measure],
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
        FILES[part.measure],
        len(chosen) * len(fanouts) * (n_steps * step_s + overload.CAPACITY_S),
        lambda folder: overload.run(
            folder, chosen, fanouts=fanouts, offered=offered, seconds=OVERLOAD_STEP_S
        ),
    )


def _priority(part: Benchmark) -> Measurement:
    chosen = _named(priority.forwarders(), part.only or ("native afxdp",))
    fanouts = part.fanouts or tuple(priority.OFFERED)[: 1 if part.short else None]
    return Measurement(
        FILES[part.measure],
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
        FILES[part.measure],
        pktswitch.cell_s(effort) * len(chosen) * len(fanouts),
        lambda folder: pktswitch.run(folder, chosen, fanouts, effort),
    )


def _kernel(part: Benchmark) -> Measurement:
    cells = kernel.cells(part.fanouts, part.rounds, part.trial_s, is_quick=part.short)
    return _of_cells(part, cells, kernel.run)


def _switching(part: Benchmark) -> Measurement:
    cells = switching.cells(part.rounds, part.trial_s, is_quick=part.short)
    return _of_cells(part, cells, switching.run)


def _scaling(part: Benchmark) -> Measurement:
    cells = scaling.cells(part.rounds, part.trial_s, is_quick=part.short)
    return _of_cells(part, cells, scaling.run)


def _pisces(part: Benchmark) -> Measurement:
    cells = pisces.cells(part.rounds, part.trial_s, is_quick=part.short)
    return _of_cells(part, cells, pisces.run)


class _Planned(Protocol):
    @property
    def planned_s(self) -> float: ...


_Cell = TypeVar("_Cell", bound=_Planned)


def _of_cells(
    part: Benchmark,
    cells: Sequence[_Cell],
    measure: Callable[[Path, Sequence[_Cell]], Failures],
) -> Measurement:
    """Of the cells those that the part names."""
    todo = [cell for cell in cells if not part.only or any(word in str(cell) for word in part.only)]
    return Measurement(
        FILES[part.measure],
        sum(cell.planned_s for cell in todo),
        lambda folder: measure(folder, todo),
    )


def _neobft(part: Benchmark) -> Measurement:
    effort = neobft.QUICK if part.short else neobft.Effort()
    return Measurement(
        FILES[part.measure], effort.planned_s, lambda folder: neobft.run_study(folder, effort)
    )


_MEASUREMENTS: dict[str, Callable[[Benchmark], Measurement]] = {
    "pipeline": partial(_pipeline, "parts"),
    "growth": partial(_pipeline, "growth"),
    "fanout": _fanout,
    "overload": _overload,
    "priority": _priority,
    "pktswitch": _pktswitch,
    "kernel": _kernel,
    "switching": _switching,
    "scaling": _scaling,
    "pisces": _pisces,
    "neobft": _neobft,
}


def measurement_of(part: Benchmark) -> Measurement:
    """The benchmark of a part of an experiment."""
    return _MEASUREMENTS[part.measure](part)
