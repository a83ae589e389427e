"""The highest rate without loss and the peak, in trials as RFC 2544 has them (section 26.1). Pure.

A trial offers a rate for some time, waits until nothing comes any more, and counts. Short trials
find the rate: a low one doubles until a trial fails (or halves until one passes), then the gap is
halved. So a forwarder that collapses under overload meets little of it before its limit is known. A
short trial is shorter than queues are, so there a copy that is late counts as one that is lost.
Long trials decide: of rates each 3, 6, 9 ... % lower than the one before, the first that loses
nothing. They are long enough to fill any queue, and are judged by loss alone; what was late in them
is told apart.

A short trial that fails is done twice more and fails if one of these does: a stolen moment of the
processor fails one of them.

Last, more is offered than was carried: the peak is the largest median of what came.
"""

import math
import statistics
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lab.bench.load import Run

FIRST_PER_S = 16_000.0
"""Less than every forwarder here carries but the slowest, for which it is halved."""
LEAST_PER_S = 100.0
SHORT_S = 0.3
"""At a copy a microsecond some hundred thousand copies."""
TRIAL_S = 60.0
"""Of RFC 2544: the trial that decides."""
PART_OF_TRIAL = 12
"""A trial of so small a part comes before the whole one: most rates that lose show it there."""
KEPT_UP = 0.97
FINE = 1.03
"""How near the limit the search comes."""
SHORT_MAX = 2
"""So many doublings in a row by which the load sends no more: it can send no more. One may be a
moment in which it had no processor."""
DECIDING_MAX = 9
"""The last rate that is tried is a third of the first."""
BEYOND = (1.1, 1.25, 1.5, 2.0)
"""What is offered for the peak, in rates without loss."""
BEYOND_TIMES = 3
PEAK_STEP, PEAK_HELPS, RATE_MAX = 1.08, 1.01, 1e9
COLLAPSED = 0.8
"""No more is offered when so little of the peak came."""
LOSS, LATENESS, LOAD = "loss", "lateness", "load"


@dataclass(frozen=True, slots=True)
class Effort:
    trial_s: float = TRIAL_S
    short_s: float = SHORT_S
    first_per_s: float = FIRST_PER_S

    @property
    def deciding_s(self) -> tuple[float, ...]:
        """The trials that decide, one after the other."""
        part_s = self.trial_s / PART_OF_TRIAL
        return (part_s, self.trial_s) if part_s >= self.short_s else (self.trial_s,)

    @property
    def planned_s(self) -> float:
        """What a search takes, about: some thirty short trials, and one in two whole ones again."""
        return 32 * (self.short_s + 0.2) + 1.5 * sum(self.deciding_s)


FULL = Effort()
QUICK = Effort(trial_s=0.5, short_s=0.1)
"""Shows that everything works, not how fast it is."""


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
    """What came in the trial that decided; 0 where none was without loss."""
    peak_per_s: float
    is_peak_least: bool
    """All that could be offered was carried: the peak may be higher."""
    bound_by: str
    """What failed just above: `loss`, `lateness`; or `load`, which could send no more."""
    trial_s: float
    """How long the trial was that decided."""
    late_share: float
    """Of its copies, those that came after the last packet was sent."""
    decided: Run | None


Search = Generator[Trial, Run, Found]
"""Trials to be made, the result of each, what was found."""


def falls_short(trial: Trial, run: Run) -> bool:
    """Whether the load sent less than it was told to."""
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
    """The highest rate that short trials pass, or 0; and the trial that failed just above."""
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
        # The load may not have come so far.
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
    """Whether most of three trials, or the first, lose nothing and are in time."""
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
    """The first whole trial without loss, and the one that failed before it."""
    rate = good
    for n in range(1, DECIDING_MAX + 1):
        for seconds in effort.deciding_s:
            run = yield Trial(rate, seconds, "decide")
            if run.is_lost:
                failed = run
                break
        else:
            return run, failed
        # From what was sent, which may be less than was asked for.
        rate = min(rate, run.sent_copies_per_s) / FINE**n
    return None, failed


def _peak(effort: Effort, lossless: float) -> Generator[Trial, Run, tuple[float, bool]]:
    """The most that came, and whether all that could be offered was carried."""
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
    """The most that comes, with or without loss.

    The rate doubles while more comes, then it is raised in small steps from where the most came.
    It ends when two steps bring no more: a stolen moment of the processor is no limit.
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
    """Drives several: a trial of each, then the next of each; what each found."""
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
