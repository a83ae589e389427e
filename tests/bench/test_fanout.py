"""Tests which fan-outs the benchmark measures, for how long, and which trials are void."""

import math
import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import cast

import pytest

from lab.bench import fanout, load, matrix, noise
from lab.bench.fanout import Meter, cpu_ns_per_copy, row_of
from lab.bench.forwarders import RAW as NO_FORWARDER
from lab.bench.forwarders import Forwarder, Running
from lab.bench.matrix import Choice
from lab.bench.noise import Listener, Noise
from lab.bench.search import QUICK, Found, Trial
from lab.bench.trials import Probe
from lab.experiment import known, parse
from lab.results.statistics import median, percentile_or_nan
from lab.sites import OnePort
from lab.study.suite import MEASUREMENTS, measurement_of
from tests.bench.synthetic import run_of

MAKE_BENCH_S, QUICK_BENCH_S = 3 * 3600.0, 480.0


def test_what_spins_takes_the_time_between_two_copies_of_its_processor() -> None:
    per_s = 500_000.0
    probe = Probe(
        {}, Trial(per_s, 1.0, "decide"), run_of(per_s, 1.0, per_s, per_s), Noise(), cpu_s=3.0
    )
    for wait, cpu_ns in (("spin", 2_000.0), ("sleep", 6_000.0)):
        assert cpu_ns_per_copy(wait, probe) == pytest.approx(cpu_ns)
    assert math.isnan(cpu_ns_per_copy("sleep", None))


def test_a_trial_that_others_disturbed_is_void_and_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noises = [Noise(0.1), Noise(stolen_s=0.1), Noise(0.001), Noise(9.0)]
    runs = iter(run_of(1e5, 1.0, 1e5, 1e5) for _ in range(20))
    monkeypatch.setattr(fanout, "Listener", lambda: SimpleNamespace(noise=lambda: noises.pop(0)))
    monkeypatch.setattr(load, "offer", lambda *_, **__: next(runs))
    forwarder = Forwarder("pktswitch_bypass", "", "afxdp", "spin")
    meter = Meter(forwarder, cast("OnePort", None), Running(()), 1, [])
    kept = meter.offer(Trial(1e5, 1.0, "find"))
    assert [probe.is_void for probe in meter.probes] == [True, True, False]
    assert kept is meter.probes[-1].run
    # If other processes disturb every trial, the last one is kept and marked.
    noises[:] = [Noise(9.0)] * 20
    disturbed = meter.offer(Trial(1e5, 60.0, "decide"))
    assert len(meter.probes) == 3 + 3
    found = Found(1e5, 1e5, False, "loss", 60.0, 0.0, disturbed)
    assert row_of(meter, found, 0, [], []).is_disturbed == 1


def test_a_step_that_others_disturbed_is_measured_again_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noises = [Noise(0.1), Noise(0.001)]
    monkeypatch.setattr(noise, "Listener", lambda: SimpleNamespace(noise=lambda: noises.pop(0)))
    steps = iter(range(9))
    assert noise.undisturbed(lambda: next(steps), 1.0) == 1
    noises[:] = [Noise(0.1)] * 9
    assert noise.undisturbed(lambda: next(steps), 1.0) == 4


def test_noise_is_what_others_ran_or_the_host_took() -> None:
    assert not Noise(others_s=0.005).spoils(0.3)
    assert Noise(others_s=0.02).spoils(0.3)
    # A single tick may be a rounding error.
    assert not Noise(stolen_s=0.01).spoils(0.1)
    assert Noise(stolen_s=0.02).spoils(0.1)
    assert not Noise(stolen_s=0.5).spoils(60.0)


ORPHAN = """
import os, time
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
end = time.process_time() + 20
while time.process_time() < end:
    pass
"""


def test_what_another_process_runs_on_the_processors_is_heard_and_what_the_lab_started_is_not() -> (
    None
):
    cpus = tuple(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        stranger = int(parent.stdout.readline())
        try:
            listener, limit_s = Listener(cpus), time.monotonic() + 120.0
            while listener.noise().others_s < 0.05:
                assert time.monotonic() < limit_s
        finally:
            os.kill(stranger, signal.SIGKILL)
    busy = "import time\nend = time.process_time() + 20\nwhile time.process_time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", busy]) as own:
        assert own.pid not in Listener(cpus)._used
        own.kill()


def test_a_forwarder_that_waits_otherwise_or_is_slow_is_measured_less() -> None:
    todo = matrix.cells(Choice())
    ours = Forwarder("p4_replication", "native", "afxdp", "spin")
    of = [cell for cell in todo if ours in cell.forwarders]
    assert sorted((cell.fanout, cell.round) for cell in of) == [
        (1, 0), (4, 0), (16, 0), (64, 0), (64, 1), (64, 2), (256, 0)
    ]  # fmt: skip
    sleeping = {cell.fanout for cell in todo if cell.forwarders[0].wait == "sleep"}
    assert sleeping == {1, 64}
    assert len({(cell.round, str(cell)) for cell in todo}) == len(todo)


def test_what_spins_is_tried_for_a_minute_and_a_point_of_a_curve_for_ten_seconds() -> None:
    every = matrix.cells(Choice())
    todo = [cell for cell in every if cell.forwarders[0].row != NO_FORWARDER]
    assert {cell.effort.trial_s for cell in todo if cell.fanout != 64} == {10.0}
    compared = [cell for cell in todo if cell.fanout == 64]
    in_turns = {
        (cell.forwarders[0].wait, cell.effort.trial_s)
        for cell in compared
        if len(cell.forwarders) > 1
    }
    assert in_turns == {("spin", 60.0), ("sleep", 20.0)}
    assert {cell.effort.trial_s for cell in compared if len(cell.forwarders) == 1} == {20.0}
    assert {cell.effort for cell in matrix.cells(Choice(), is_quick=True)} == {QUICK}
    shorter = {cell.effort.trial_s for cell in matrix.cells(Choice(fanouts=(8,), trial_s=2.0))}
    assert shorter <= {2.0, 2.0 / matrix.POINT_PART, 2.0 / matrix.CURVE_PART}


def test_like_takes_turns_with_like() -> None:
    groups = {cell.forwarders for cell in matrix.cells(Choice()) if len(cell.forwarders) > 1}
    for group in groups:
        assert len({forwarder.wait for forwarder in group}) == 1
        assert {"pktswitch_bypass", "p4_replication"} < {forwarder.row for forwarder in group}
    assert {(group[0].port, group[0].wait) for group in groups} == {
        (port, wait) for port in ("afpacket", "afxdp") for wait in ("spin", "sleep")
    }
    # Forwarders are measured together at every fan-out, so that all points of a curve are measured
    # in the same way.
    fanouts = {cell.fanout for cell in matrix.cells(Choice()) if len(cell.forwarders) > 1}
    assert fanouts == set(fanout.FANOUTS)
    only = matrix.cells(Choice(only=("pktswitch_bypass afxdp spin",), fanouts=(64,), rounds=2))
    assert [(cell.round, str(cell)) for cell in only] == [
        (number, "pktswitch_bypass afxdp spin, 64 copies") for number in range(2)
    ]


def planned_s(name: str, *, is_quick: bool = False) -> float:
    parts = parse(known()[name].read_text(), name, is_quick=is_quick).benchmarks
    return sum(measurement_of(part).planned_s for part in parts)


def test_the_benchmark_takes_three_hours_and_its_short_form_eight_minutes() -> None:
    assert planned_s("bench") < MAKE_BENCH_S
    assert planned_s("bench", is_quick=True) < QUICK_BENCH_S
    kept = {
        part.measure
        for name, file in known().items()
        for part in parse(file.read_text(), name).benchmarks
    }
    assert kept == set(MEASUREMENTS)


def test_what_was_not_measured_is_not_in_the_median() -> None:
    assert median([1.0, math.nan, 2.0, math.nan, 9.0]) == 2.0
    assert math.isnan(median([math.nan]))
    assert math.isnan(percentile_or_nan([], 50))
