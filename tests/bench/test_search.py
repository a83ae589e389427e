"""Tests that the search finds the right rates of simulated forwarders."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import pytest

from lab.bench.load import Run
from lab.bench.search import (
    FINE,
    FIRST_PER_S,
    LATENESS,
    LOAD,
    LOSS,
    PEAK_STEP,
    SHORT_S,
    Effort,
    Found,
    Trial,
    drive,
    in_turns,
    peak_search,
    search,
)
from tests.bench.synthetic import run_of

EFFORT = Effort()


@dataclass
class Forwarder:
    """Carries `most` copies a second, or `overrun * most` if more are offered, behind a queue."""

    most: float
    overrun: float = 1.0
    """The share of `most` that is carried when more is offered."""
    queue: float = 0.0
    """How many copies may wait in the queue."""
    load_max: float = math.inf
    trials: list[Trial] = field(default_factory=list)

    def __call__(self, trial: Trial) -> Run:
        self.trials.append(trial)
        sent_per_s = min(trial.per_s, self.load_max)
        carried = self.most if sent_per_s <= self.most else self.overrun * self.most
        sent, in_time = sent_per_s * trial.seconds, min(sent_per_s, carried) * trial.seconds
        came = min(sent, in_time + self.queue)
        return run_of(sent_per_s, trial.seconds, came, in_time)


def found_of(forwarder: Callable[[Trial], Run]) -> Found:
    return drive(search(EFFORT), forwarder)


LIMITS = (150.0, 4_690.0, 45_140.0, 53_800.0, 700_000.0, 2_760_000.0)


@pytest.mark.parametrize("most", LIMITS)
def test_the_limit_of_one_that_collapses_is_found_from_below(most: float) -> None:
    """BMv2 is an example: beyond its highest rate, it carries only a tenth of that rate."""
    found = found_of(Forwarder(most, overrun=0.1))
    assert most / FINE**2 < found.lossless_per_s <= most
    assert most / FINE**2 < found.peak_per_s <= most
    assert (found.bound_by, found.is_peak_least) == (LOSS, False)


@pytest.mark.parametrize("most", LIMITS)
def test_the_limit_of_one_that_keeps_its_rate_is_found_and_its_peak(most: float) -> None:
    found = found_of(Forwarder(most))
    assert most / FINE**2 < found.lossless_per_s <= most
    assert found.peak_per_s == pytest.approx(most, rel=0.01)
    assert not found.is_peak_least


def test_a_peak_beyond_what_the_load_can_send_is_said_to_be_a_lower_bound() -> None:
    found = found_of(Forwarder(9e9, load_max=600_000.0))
    assert found.lossless_per_s == pytest.approx(600_000.0)
    assert found.peak_per_s == pytest.approx(600_000.0)
    assert (found.bound_by, found.is_peak_least) == (LOAD, True)


@pytest.mark.parametrize("queue", [8_192.0, 200_000.0])
def test_a_queue_that_a_short_trial_does_not_fill_is_no_capacity(queue: float) -> None:
    """If all copies of a short trial arrive, but some late, the rate must not count as lossless."""
    most = 700_000.0
    forwarder = Forwarder(most, queue=queue)
    short = forwarder(Trial(1.1 * most, 0.1, "find"))
    assert not short.is_lost
    assert short.is_late
    found = found_of(forwarder)
    decided = forwarder(Trial(found.lossless_per_s, EFFORT.trial_s, "decide"))
    assert not decided.is_lost
    # The rate may be above the capacity by what the queue absorbs in the deciding trial.
    assert most / FINE**2 < found.lossless_per_s <= most + queue / EFFORT.trial_s
    assert found.bound_by == LATENESS


def test_the_trial_that_decides_is_a_whole_one_and_is_judged_by_loss_alone() -> None:
    most, queue = 700_000.0, 30_000.0
    forwarder = Forwarder(most, queue=queue)
    found = found_of(forwarder)
    *_, decided = (trial for trial in forwarder.trials if trial.step == "decide")
    assert decided.seconds == found.trial_s == 60.0
    assert {trial.seconds for trial in forwarder.trials if trial.step == "find"} == {SHORT_S}

    def late(trial: Trial) -> Run:
        run = forwarder(trial)
        if trial.step != "decide":
            return run
        return run_of(trial.per_s, trial.seconds, run.copies, 0.9 * run.copies)

    told = found_of(late)
    assert told.late_share == pytest.approx(0.1, abs=0.001)
    assert told.lossless_per_s == pytest.approx(0.9 * found.lossless_per_s, rel=0.01)


def test_what_a_short_trial_does_not_lose_and_a_long_one_does_is_not_kept() -> None:
    """This forwarder loses some copies in trials of twenty seconds and more."""
    forwarder = Forwarder(700_000.0)

    def pausing(trial: Trial) -> Run:
        run = forwarder(trial)
        if trial.seconds < 20.0 or trial.per_s <= 500_000.0:
            return run
        return run_of(trial.per_s, trial.seconds, run.copies - 100, run.copies - 100)

    found = found_of(pausing)
    assert 400_000.0 < found.lossless_per_s <= 500_000.0
    assert found.bound_by == LOSS
    # The peak is measured in short trials, which the pauses do not affect.
    assert found.peak_per_s > 600_000.0


def test_a_stolen_moment_fails_a_try_and_not_the_search() -> None:
    most = 700_000.0
    forwarder, n_tries = Forwarder(most), 0

    def stolen(trial: Trial) -> Run:
        nonlocal n_tries
        n_tries += trial.step == "find"
        run = forwarder(trial)
        if trial.step != "find" or n_tries % 4:
            return run
        return run_of(trial.per_s, trial.seconds, 0.9 * run.copies, 0.9 * run.copies)

    assert found_of(stolen).lossless_per_s > most / FINE**3


def test_a_load_that_falls_short_for_a_moment_does_not_end_the_search() -> None:
    most = 700_000.0
    forwarder, n_tries = Forwarder(most), 0

    def stolen(trial: Trial) -> Run:
        nonlocal n_tries
        n_tries += 1
        part = 0.4 if n_tries % 3 == 2 and trial.step != "decide" else 1.0
        return forwarder(Trial(part * trial.per_s, trial.seconds, trial.step))

    found = found_of(stolen)
    assert found.lossless_per_s > most / FINE**3
    assert found.peak_per_s > most / FINE**3


def test_one_that_loses_at_every_rate_has_none_without_loss() -> None:
    found = found_of(Forwarder(10.0, overrun=0.0))
    assert (found.lossless_per_s, found.bound_by, found.decided) == (0.0, LOSS, None)


def test_one_that_forwards_nothing_has_no_rate() -> None:
    found = found_of(lambda trial: run_of(trial.per_s, trial.seconds, 0, 0))
    assert (found.lossless_per_s, found.peak_per_s) == (0.0, 0.0)


@pytest.mark.parametrize("overrun", [0.1, 1.0])
def test_the_capacity_of_overload_is_the_peak_of_one_that_collapses_too(overrun: float) -> None:
    most = drive(peak_search(EFFORT), Forwarder(45_140.0, overrun=overrun))
    assert most == pytest.approx(45_140.0, rel=PEAK_STEP - 1)


def test_a_stolen_moment_does_not_end_the_climb_to_the_peak() -> None:
    forwarder, n_tries = Forwarder(700_000.0), 0

    def stolen(trial: Trial) -> Run:
        nonlocal n_tries
        n_tries += 1
        return forwarder(replace(trial, per_s=trial.per_s * (0.3 if n_tries % 3 == 1 else 1.0)))

    assert drive(peak_search(EFFORT), stolen) == pytest.approx(700_000.0, rel=0.1)


def test_in_turns_each_has_a_trial_and_then_the_next() -> None:
    order: list[str] = []
    forwarders = {"a": Forwarder(20_000.0), "b": Forwarder(900_000.0)}

    def offer(name: str) -> Callable[[Trial], Run]:
        def offered(trial: Trial) -> Run:
            order.append(name)
            return forwarders[name](trial)

        return offered

    both = in_turns([(search(EFFORT), offer(name)) for name in forwarders])
    assert both == [found_of(Forwarder(one.most)) for one in forwarders.values()]
    assert order[:6] == ["a", "b"] * 3


def test_the_first_rate_is_low() -> None:
    forwarder = Forwarder(1e6)
    found_of(forwarder)
    assert forwarder.trials[0].per_s == FIRST_PER_S
    climbing = [trial.per_s for trial in forwarder.trials[:8]]
    assert all(later <= 2 * before for before, later in pairwise(climbing))
