"""Searches for the highest lossless rate and for the peak, by trials as in RFC 2544, section 26.1.

The search only plans trials and judges their results: this module has no side effects.

A trial sends packets at a rate for some time, waits until the forwarder sends no more copies of
them, and counts the copies. Short trials find the rate: a low rate is doubled until a trial fails
(or halved until one passes), then the gap between the highest rate that passed and the lowest that
failed is halved again and again. In this way a forwarder that collapses under overload meets little
overload before its limit is known. In a short trial a forwarder's queues can take up packets for
which it is too slow, so a late copy counts as lost. Long trials decide: the rate is lowered by 3,
6, 9 ... % until a trial loses nothing. Long trials are long enough to fill any queue, and they fail
only by loss; their share of late copies is reported separately.

A short trial that fails is repeated twice, and the rate fails only if a repetition fails too. So if
another process takes the processor for a moment, one trial fails, but not the rate.

Last, rates beyond the lossless one are offered, each several times. For each offered rate, the
median of the rates at which copies arrived is taken; the largest median is the peak.
"""

import math
import statistics
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lab.bench.load import Run

FIRST_PER_S = 16_000.0
"""The first rate of a search. Nearly all forwarders carry more; for the others it is halved."""
LEAST_PER_S = 100.0
SHORT_S = 0.3
"""The duration of a short trial.

A forwarder that sends a copy a microsecond sends 300,000 copies in this time.
"""
TRIAL_S = 60.0
"""The duration of a deciding trial, as in RFC 2544."""
PART_OF_TRIAL = 12
"""Before each deciding trial comes a trial of this part (one twelfth) of its duration.

Most rates at which packets are lost lose some in this preceding trial already.
"""
KEPT_UP = 0.97
FINE = 1.03
"""Two rates count as equal if they differ by at most this factor.

Short trials end when the lowest failed rate is within this factor of the highest passed rate.
"""
SHORT_MAX = 2
"""If the rate was doubled this many times in a row and the load never sent more than before, the
load can send no more. A single doubling does not show this, because the load may have had no
processor for a moment."""
DECIDING_MAX = 9
"""How many rates are tried with deciding trials. The last of them is a third of the first."""
BEYOND = (1.1, 1.25, 1.5, 2.0)
"""The rates that are offered to find the peak, as multiples of the lossless rate."""
BEYOND_TIMES = 3
PEAK_STEP, PEAK_HELPS, RATE_MAX = 1.08, 1.01, 1e9
COLLAPSED = 0.8
"""If copies arrive at less than this share of the peak rate, the search offers no higher rate."""
LOSS, LATENESS, LOAD = "loss", "lateness", "load"


@dataclass(frozen=True, slots=True)
class Effort:
    trial_s: float = TRIAL_S
    short_s: float = SHORT_S
    first_per_s: float = FIRST_PER_S

    @property
    def deciding_s(self) -> tuple[float, ...]:
        """The durations of the trials that decide about a rate, one after the other."""
        part_s = self.trial_s / PART_OF_TRIAL
        return (part_s, self.trial_s) if part_s >= self.short_s else (self.trial_s,)

    @property
    def planned_s(self) -> float:
        """About how long a search takes: 32 short trials, and 1.5 times the deciding trials."""
        return 32 * (self.short_s + 0.2) + 1.5 * sum(self.deciding_s)


FULL = Effort()
QUICK = Effort(trial_s=0.5, short_s=0.1)
"""For a run that shows only that everything works, not how fast."""


@dataclass(frozen=True, slots=True)
class Trial:
    per_s: float
    """Copies, or packets, a second."""
    seconds: float
    step: str
    """`find`, `decide` or `peak`."""


@dataclass(frozen=True, slots=True)
class Found:
    lossless_per_s: float
    """The rate of copies in the trial that decided; 0 if no rate passed."""
    peak_per_s: float
    is_peak_least: bool
    """Whether the forwarder carried all that the load could offer, so the peak may be higher."""
    bound_by: str
    """Why the next higher rate failed: `loss`, `lateness`, or `load` (the load could send no
    more)."""
    trial_s: float
    """The duration of the trial that decided."""
    late_share: float
    """In the trial that decided, the share of copies that came after the last packet was sent."""
    decided: Run | None


Search = Generator[Trial, Run, Found]
"""A search yields the trials to make, is sent the result of each, and returns what it found."""


def falls_short(trial: Trial, run: Run) -> bool:
    """Whether the load sent clearly less than the trial asked for."""
    return run.sent_copies_per_s < KEPT_UP * trial.per_s


def search(effort: Effort) -> Search:
    good, failed = yield from _find(effort)
    if not good:
        return Found(0.0, 0.0, False, _cause(failed), effort.trial_s, math.nan, None)
    decided, failed = yield from _decide(effort, good, failed)
    lossless = decided.copies_per_s if decided else 0.0
    peak, is_least = yield from _peak(effort, lossless or good)
    return Found(
        lossless_per_s=lossless,
        peak_per_s=max(peak, lossless),
        is_peak_least=is_least and failed is None,
        bound_by=_cause(failed),
        trial_s=effort.trial_s,
        late_share=decided.late_share if decided else math.nan,
        decided=decided,
    )


def _cause(failed: Run | None) -> str:
    if failed is None:
        return LOAD
    return LOSS if failed.is_lost else LATENESS


def _find(effort: Effort) -> Generator[Trial, Run, tuple[float, Run | None]]:
    """Finds the highest rate that passes short trials, or 0, and the failed trial just above it."""
    good, bad, rate, n_short = 0.0, 0.0, effort.first_per_s, 0
    failed: Run | None = None
    while not bad or not good:
        trial = Trial(rate, effort.short_s, "find")
        passes, run = yield from _passes(trial)
        if passes:
            is_short = falls_short(trial, run)
            is_more = run.sent_copies_per_s > FINE * good
            good = max(good, min(rate, run.sent_copies_per_s))
            n_short = 0 if not is_short or is_more else n_short + 1
            if n_short == SHORT_MAX:
                return good, failed
            rate *= 2
            continue
        failed = run
        # The load may have sent less than `rate`, so the rate that it did send has failed. It must
        # still count as higher than `good`, the highest rate that passed.
        bad = max(min(rate, run.sent_copies_per_s), good * FINE)
        if good:
            break
        rate /= 2
        if rate < LEAST_PER_S:
            return 0.0, failed
    while bad / good > FINE:
        middle = math.sqrt(good * bad)
        passes, run = yield from _passes(Trial(middle, effort.short_s, "find"))
        if passes:
            good = middle
        else:
            bad, failed = middle, run
    return good, failed


def _passes(trial: Trial) -> Generator[Trial, Run, tuple[bool, Run]]:
    """Returns whether a rate passes, and the result of the last trial.

    The rate passes if the first trial, or both repetitions after it, lose nothing and have few late
    copies.
    """
    first = yield trial
    if first.is_lossless:
        return True, first
    for _ in range(2):
        again = yield trial
        if not again.is_lossless:
            return False, again
    return True, again


def _decide(
    effort: Effort, good: float, failed: Run | None
) -> Generator[Trial, Run, tuple[Run | None, Run | None]]:
    """Returns the first deciding trial without loss, and the last trial that failed before it."""
    rate = good
    for n in range(1, DECIDING_MAX + 1):
        for seconds in effort.deciding_s:
            run = yield Trial(rate, seconds, "decide")
            if run.is_lost:
                failed = run
                break
        else:
            return run, failed
        # The load may have sent less than `rate`. The next rate is derived from the rate that it
        # did send.
        rate = min(rate, run.sent_copies_per_s) / FINE**n
    return None, failed


def _peak(effort: Effort, lossless: float) -> Generator[Trial, Run, tuple[float, bool]]:
    """Finds the highest rate of copies and whether the forwarder carried all that the load sent."""
    peak, is_least = 0.0, True
    for times in BEYOND:
        came, n_short = [], 0
        for _ in range(BEYOND_TIMES):
            trial = Trial(times * lossless, effort.short_s, "peak")
            run = yield trial
            came.append(run.copies_per_s)
            is_least = is_least and run.copies_per_s >= KEPT_UP * run.sent_copies_per_s
            n_short += falls_short(trial, run)
        here = statistics.median(came)
        peak = max(peak, here)
        if here < COLLAPSED * max(peak, lossless) or n_short == BEYOND_TIMES:
            break
    return peak, is_least


def peak_search(effort: Effort) -> Generator[Trial, Run, float]:
    """Searches for the highest rate at which copies arrive, with or without loss.

    The offered rate is doubled while more copies arrive, then raised in small steps from the best
    rate. The search ends after two steps in a row without more copies. One such step is not enough,
    because another process may have taken the processor for a moment.
    """
    best, at = 0.0, effort.first_per_s
    for growth in (2.0, PEAK_STEP):
        rate, n_worse = (at, 0) if growth == 2.0 else (at * growth, 0)
        while n_worse < 2 and rate < RATE_MAX:
            run = yield Trial(rate, effort.short_s, "peak")
            is_more = run.copies_per_s > PEAK_HELPS * best
            n_worse = 0 if is_more else n_worse + 1
            if run.copies_per_s > best:
                best, at = run.copies_per_s, rate
            rate *= growth
    return best


Offer = Callable[[Trial], Run]
What = TypeVar("What")


def in_turns(searches: Sequence[tuple[Generator[Trial, Run, What], Offer]]) -> list[What]:
    """Drives several searches, whose trials alternate. Returns the result of each search."""
    found: dict[int, What] = {}
    trials = {idx: next(steps) for idx, (steps, _) in enumerate(searches)}
    while trials:
        for idx, trial in [*trials.items()]:
            steps, offer = searches[idx]
            try:
                trials[idx] = steps.send(offer(trial))
            except StopIteration as end:
                found[idx] = end.value
                del trials[idx]
    return [found[idx] for idx in range(len(searches))]


def drive(steps: Generator[Trial, Run, What], offer: Offer) -> What:
    return in_turns([(steps, offer)])[0]
