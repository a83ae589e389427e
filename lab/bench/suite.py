"""The experiments of `make bench`: what each writes, how long it takes, how it is run.

Each module's own command measures more; here each has what the report needs, and all of them
together take less than twenty minutes.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.bench import knee, matrix, overload, pktswitch, priority
from lab.bench.experiment import Failures
from lab.bench.forwarders import Forwarder
from lab.bench.matrix import RAW, Choice
from lab.bench.pair import FORWARDER_CPU
from lab.process import run
from lab.switch import RELEASE, require_build

PIPELINE_BENCH = RELEASE / "reprise-pipeline-bench"
PIPELINE_TIMEOUT_S = 900.0
OVERLOADED = ("replication", "recirculation native afxdp", "relay afxdp", "bmv2")
OVERLOAD_OFFERED = (0.1, 0.5, 0.9, 1.0, 2.0, 4.0, 10.0)
OVERLOAD_STEP_S = 0.25
KNEE_FORWARDERS = ("interpreter afpacket", "native afpacket", "native afxdp")
KNEE_GROWTH = 4
"""Viewers are multiplied by so much until they are too many."""
KNEE_HALVINGS = 2
KNEE_TRIES = 2
"""A stolen moment of the processor loses copies in a run as short as this."""
PKTSWITCH_FANOUTS = (1, 64)


@dataclass(frozen=True, slots=True)
class Experiment:
    """One part of the benchmark.

    `run` writes `file` into the folder and returns what it could not measure and why: that a row
    is lacking is no exception.
    """

    name: str
    about: str
    file: str
    planned_s: float
    run: Callable[[Path], Failures]
    needs_root: bool = True


def experiments(choice: Choice, *, is_quick: bool = False) -> list[Experiment]:
    """All of them, in the order in which they are run."""
    return [
        _pipeline("parts", "pipeline", 60.0, is_quick=is_quick),
        _pipeline("growth", "growth", 60.0, is_quick=is_quick),
        _fanout(choice, is_quick=is_quick),
        _overload(is_quick=is_quick),
        _priority(is_quick=is_quick),
        _pktswitch(is_quick=is_quick),
        _knee(is_quick=is_quick),
    ]


def _named(forwarders: Sequence[Forwarder], words: Sequence[str]) -> list[Forwarder]:
    return [one for one in forwarders if any(word in str(one) for word in words)]


def _pipeline(command: str, name: str, planned_s: float, *, is_quick: bool) -> Experiment:
    abouts = {
        "parts": "each part of five pipelines, optimisation by optimisation, without ports",
        "growth": "how cost grows with entries, groups, viewers and packet size, without ports",
    }

    def measure(folder: Path) -> Failures:
        require_build(PIPELINE_BENCH)
        raw = folder / RAW
        raw.mkdir(exist_ok=True)
        argv = [str(PIPELINE_BENCH), command, "--cpu", str(FORWARDER_CPU), "--output", str(raw)]
        run([*argv, *(["--quick"] if is_quick else [])], timeout_s=PIPELINE_TIMEOUT_S)
        (raw / f"{name}.csv").rename(folder / f"{name}.csv")
        return []

    return Experiment(
        name=name,
        about=abouts[command],
        file=f"{name}.csv",
        planned_s=10.0 if is_quick else planned_s,
        run=measure,
        needs_root=False,
    )


def tsc_mhz(folder: Path) -> str:
    """The frequency of the time stamp counter, as the pipelines' benchmark measured it."""
    for name in ("pipeline", "growth"):
        file = folder / RAW / f"{name}.json"
        if file.exists():
            hertz = json.loads(file.read_text())["tsc_hz"]
            return f"{hertz / 1e6:.0f}" if hertz else "no such counter"
    return "not measured"


def _fanout(choice: Choice, *, is_quick: bool) -> Experiment:
    todo = matrix.cells(choice, is_quick=is_quick)
    return Experiment(
        name="fanout",
        about="one packet in, n copies out: rates, delays, processor time, beside peers",
        file="fanout.csv",
        planned_s=sum(cell.planned_s for cell in todo),
        run=lambda folder: matrix.run(folder, todo),
    )


def _overload(*, is_quick: bool) -> Experiment:
    chosen = _named(overload.forwarders(), ["replication native afxdp"] if is_quick else OVERLOADED)
    fanouts = overload.FANOUTS[:1] if is_quick else overload.FANOUTS
    offered = OVERLOAD_OFFERED[::3] if is_quick else OVERLOAD_OFFERED
    step_s = OVERLOAD_STEP_S + overload.SPARE_S
    return Experiment(
        name="overload",
        about="a tenth to ten times what can be carried: rate, loss by reason, fairness",
        file="overload.csv",
        planned_s=len(chosen)
        * len(fanouts)
        * ((overload.SWEEPS * len(offered) + 2 * overload.PAIRS + 4) * step_s + 1.5),
        run=lambda folder: overload.run(
            folder, chosen, fanouts=fanouts, offered=offered, seconds=OVERLOAD_STEP_S
        ),
    )


def _priority(*, is_quick: bool) -> Experiment:
    chosen = _named(priority.forwarders(), ["native afxdp"])
    fanouts = list(priority.OFFERED)[: 1 if is_quick else None]
    return Experiment(
        name="priority",
        about="two streams under overload, of which the urgent one must lose nothing",
        file="priority.csv",
        planned_s=priority.CELL_S * len(chosen) * len(fanouts),
        run=lambda folder: priority.run(folder, chosen, fanouts),
    )


def _pktswitch(*, is_quick: bool) -> Experiment:
    words = ["relay udp sleep"] if is_quick else ["udp sleep"]
    chosen = _named(pktswitch.pairs(), words)
    fanouts = PKTSWITCH_FANOUTS[:1] if is_quick else PKTSWITCH_FANOUTS
    return Experiment(
        name="pktswitch",
        about="sockets against kernel bypass: pktswitch's two figures with our pairs",
        file="pktswitch.csv",
        planned_s=pktswitch.CELL_S * len(chosen) * len(fanouts),
        run=lambda folder: pktswitch.run(folder, chosen, fanouts),
    )


def _knee(*, is_quick: bool) -> Experiment:
    words = ["replication native afxdp"] if is_quick else KNEE_FORWARDERS
    chosen = _named(knee.forwarders(), words)
    return Experiment(
        name="knee",
        about="the thesis' experiment at 4 Mbit/s: how many viewers within 20 ms",
        file="knee.csv",
        planned_s=20.0 * len(chosen),
        run=lambda folder: knee.run(
            folder, chosen, growth=KNEE_GROWTH, halvings=KNEE_HALVINGS, n_runs=1, n_tries=KNEE_TRIES
        ),
    )
