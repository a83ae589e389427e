"""Records what participants asked for, sent and received, and judges whether it is consistent.

Only a participant itself changes its own state, by one request after the other. So its state is
known from an answer to the next request. Between a request and its answer, the old or the new state
may hold.
"""

import bisect
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

ANYTIME = float("inf")
Pair = tuple[str, str]
"""A receiver and a publisher."""


@dataclass(slots=True)
class Span:
    """What a condition is from one moment until the next span begins."""

    holds: bool | None
    """None: a request is on its way, so the condition may hold or not."""
    since_s: float


class Condition:
    """Whether something holds, over time."""

    def __init__(self) -> None:
        self._spans = [Span(holds=False, since_s=0.0)]

    def set(self, holds: bool | None, at_s: float) -> None:
        self._spans.append(Span(holds, at_s))

    def around(self, at_s: float) -> str:
        """Describes for people what the condition was before and after a time."""
        place = bisect.bisect_right(self._spans, at_s, key=lambda span: span.since_s)
        near = self._spans[max(place - 3, 0) : place + 2]
        return ", ".join(f"{span.holds} from {span.since_s:.3f} s" for span in near)

    def over(self, begin_s: float, end_s: float) -> bool | None:
        """The condition's value from `begin_s` to `end_s`; None if it changes or is unknown."""
        first = bisect.bisect_right(self._spans, begin_s, key=lambda span: span.since_s) - 1
        found = self._spans[max(first, 0)].holds
        for span in self._spans[first + 1 :]:
            if span.since_s > end_s:
                break
            if span.holds != found:
                return None
        return found


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and the time until which the fault may cause losses of packets."""

    kind: str
    begin_s: float
    end_s: float
    loses_until_s: float | None = None
    """None if the fault may cause no loss."""


@dataclass(slots=True)
class Verdict:
    """What is wrong, and how much was checked."""

    wrong: list[str] = field(default_factory=list)
    n_due: int = 0
    """The number of copies that had to arrive."""
    n_lost: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The number of copies that were lost because of a fault, by the fault's kind."""
    outage_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """For each kind of fault, the longest time for which it left a receiver without copies."""


class History:
    """The record of a test: many threads write it while everything runs; it is judged at the
    end."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscribed: dict[Pair, Condition] = defaultdict(Condition)
        self._listens: dict[Pair, Condition] = defaultdict(Condition)
        self._sends: dict[str, Condition] = defaultdict(Condition)
        self._audible: dict[str, Condition] = defaultdict(Condition)
        self._sent: dict[str, list[float]] = defaultdict(list)
        self._received: dict[Pair, list[tuple[int, float]]] = defaultdict(list)
        self.faults: list[Fault] = []
        self.wrong: list[str] = []

    def subscribed(self, receiver: str, publisher: str, holds: bool | None) -> None:
        """Records whether a subscription exists.

        `holds` is None while a request that changes this is on its way.
        """
        with self._lock:
            self._subscribed[receiver, publisher].set(holds, time.monotonic())

    def listens(self, receiver: str, publisher: str, holds: bool) -> None:
        """Records that the socket for a subscription is signed in, or is closed now."""
        with self._lock:
            self._listens[receiver, publisher].set(holds, time.monotonic())

    def sends(self, publisher: str, holds: bool) -> None:
        """Records that the publisher's socket is signed in, or is closed now."""
        with self._lock:
            self._sends[publisher].set(holds, time.monotonic())

    def audible(self, publisher: str, holds: bool | None) -> None:
        """Records whether a track exists and is not muted.

        `holds` is None while a request that changes this is on its way.
        """
        with self._lock:
            self._audible[publisher].set(holds, time.monotonic())

    def send(self, publisher: str) -> int:
        """Records that the publisher sends a packet now; returns the packet's number."""
        with self._lock:
            sent = self._sent[publisher]
            sent.append(time.monotonic())
            return len(sent) - 1

    def receive(self, receiver: str, publisher: str, number: int) -> None:
        self._received[receiver, publisher].append((number, time.monotonic()))

    def n_sent(self) -> int:
        """How many packets all publishers have sent."""
        return sum(len(sent) for sent in self._sent.values())

    def n_received(self, pair: Pair) -> int:
        return len(self._received[pair])

    def say(self, wrong: str) -> None:
        """Records that something is wrong, whatever the conditions are."""
        with self._lock:
            self.wrong.append(wrong)

    def judge(self, settle_s: float) -> Verdict:
        """Judges everything. A packet takes `settle_s` at most from its sender to its receiver."""
        verdict = Verdict(wrong=list(self.wrong))
        pairs = set(self._subscribed) | set(self._received)
        for receiver, publisher in sorted(pairs):
            came = self._received[receiver, publisher]
            numbers = {number for number, _ in came}
            if len(numbers) != len(came):
                n_twice = len(came) - len(numbers)
                verdict.wrong.append(f"{receiver} got {n_twice} packets of {publisher} twice")
            verdict.wrong += self._not_due((receiver, publisher), settle_s)
            self._missing((receiver, publisher), numbers, settle_s, verdict)
        return verdict

    def _holds(self, pair: Pair, begin_s: float, end_s: float) -> bool | None:
        """Whether packets must arrive. False: none may arrive. None: packets may arrive or not."""
        _, publisher = pair
        wanted = self._subscribed[pair].over(begin_s, end_s)
        audible = self._audible[publisher].over(begin_s, end_s)
        if wanted is False or audible is False:
            return False
        ready = (
            wanted,
            audible,
            self._listens[pair].over(begin_s, end_s),
            self._sends[publisher].over(begin_s, end_s),
        )
        return True if all(ready) else None

    def _not_due(self, pair: Pair, settle_s: float) -> Iterator[str]:
        receiver, publisher = pair
        sent = self._sent[publisher]
        for number, at_s in self._received[pair]:
            if number >= len(sent):
                yield f"{receiver} got packet {number} of {publisher}, which was never sent"
            elif self._holds(pair, sent[number] - settle_s, at_s) is False and not self._excuses(
                sent[number], at_s
            ):
                yield (
                    f"{receiver} got packet {number} of {publisher}, not due: "
                    f"sent at {sent[number]:.3f} s, came {at_s - sent[number]:.3f} s later; "
                    f"{self._around(pair, at_s)}"
                )

    def _around(self, pair: Pair, at_s: float) -> str:
        conditions = {
            "subscribed": self._subscribed[pair],
            "listens": self._listens[pair],
            "audible": self._audible[pair[1]],
            "sends": self._sends[pair[1]],
        }
        return "; ".join(f"{name}: {it.around(at_s)}" for name, it in conditions.items())

    def _excuses(self, begin_s: float, end_s: float) -> bool:
        """Whether a fault between two moments may have kept the latest changes from the switch."""
        windows = ((fault.begin_s, fault.loses_until_s or fault.end_s) for fault in self.faults)
        return any(begin <= end_s and begin_s <= end for begin, end in windows)

    def _missing(self, pair: Pair, numbers: set[int], settle_s: float, verdict: Verdict) -> None:
        receiver, publisher = pair
        lost_since_s: float | None = None
        for number, at_s in enumerate(self._sent[publisher]):
            if self._holds(pair, at_s - settle_s, at_s + settle_s) is not True:
                lost_since_s = None
                continue
            verdict.n_due += 1
            if number in numbers:
                lost_since_s = None
                continue
            # A packet that is on its way when something is killed may be lost, too.
            fault = self._fault_at(at_s) or self._fault_at(at_s + settle_s)
            if fault is not None and not self._holds(pair, fault.begin_s - settle_s, at_s):
                # A change that was made meanwhile may reach the switch only after the fault.
                continue
            if lost_since_s is None:
                lost_since_s = at_s
            if fault is None:
                verdict.wrong.append(
                    f"{receiver} lacks packet {number} of {publisher}, sent at {at_s:.3f} s; "
                    f"{self._around(pair, at_s)}"
                )
                continue
            verdict.n_lost[fault.kind] += 1
            outage_s = at_s - lost_since_s
            verdict.outage_s[fault.kind] = max(verdict.outage_s[fault.kind], outage_s)
            if fault.loses_until_s is None:
                verdict.wrong.append(
                    f"{receiver} lacks packet {number} of {publisher}, "
                    f"sent at {at_s:.3f} s, {at_s - fault.begin_s:.3f} s after {fault.kind}"
                )

    def _fault_at(self, at_s: float) -> Fault | None:
        for fault in self.faults:
            if fault.begin_s <= at_s <= (fault.loses_until_s or fault.end_s):
                return fault
        return None
