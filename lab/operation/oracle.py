"""Judges which packets had to arrive and which must not. No I/O; the time is an argument.

Each pair of a presenter and a viewer's socket is at any moment in one of three states: the viewer
must get the presenter's packets, must not get them, or may get them. "May" holds while a command
changes the pair, or after a killed command whose result is not known yet. A packet is judged by all
states of the pair from its sending until `IN_FLIGHT_NS` later.

While the test has broken something on purpose (a link is down, the switch was killed) copies of
packets may be missing. Such a time is a disturbance. A disturbance never excuses a copy to a host
that must not have it. While a host floods the switch with frames, the missing copies are added up
(`n_missing`): their number must not exceed the number of drops that the switch and the kernel
counted meanwhile.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from lab.operation.state import Pair

IN_FLIGHT_NS = 1_500_000_000
"""How long a frame may wait in a receive ring or socket on a loaded machine."""
SETTLED_NS = 4_000_000_000
"""How long after its sending a packet is judged."""


class Due(Enum):
    MUST = "must"
    MAY = "may"
    MUST_NOT = "must not"


@dataclass(frozen=True, slots=True)
class Violation:
    time_ns: int
    what: str


@dataclass(slots=True)
class Disturbance:
    """A time in which copies may be missing at `hosts`; at every host if `hosts` is None."""

    what: str
    begun_ns: int
    over_ns: int | None = None
    hosts: frozenset[int] | None = None
    n_missing: int = 0
    """The number of losses: one for each missing copy, or one for a packet that no viewer got."""

    def covers(self, pair: Pair, from_ns: int, to_ns: int) -> bool:
        """Whether the disturbance excuses that the pair lost a packet under way in this time."""
        is_on = self.begun_ns <= to_ns and (self.over_ns is None or from_ns <= self.over_ns)
        return is_on and (self.hosts is None or not self.hosts.isdisjoint(pair[:2]))


@dataclass(slots=True)
class _Packet:
    sent_ns: int | None
    copies: Counter[tuple[int, int]] = field(default_factory=Counter)
    first_ns: int = 0


class Oracle:
    """Collects violations. Callers report all actions and all sent and received packets."""

    def __init__(self) -> None:
        self._histories: dict[Pair, list[tuple[int, Due]]] = {}
        self._packets: dict[tuple[int, int], _Packet] = {}
        self.disturbances: list[Disturbance] = []
        self.violations: list[Violation] = []
        self.n_packets = 0
        self.n_copies = 0
        self.n_required = 0
        """The number of copies that had to arrive."""
        self.n_excused = 0
        """The number of copies that had to arrive and did not, but were excused by a
        disturbance."""

    # Actions.

    def mark(self, now_ns: int, pairs: Iterable[Pair], due: Due) -> None:
        """Sets the state of pairs from now on."""
        for pair in pairs:
            self._histories.setdefault(pair, [(0, Due.MUST_NOT)]).append((now_ns, due))

    def due(self, pair: Pair, from_ns: int, to_ns: int) -> set[Due]:
        """All states of a pair between two moments, including those at the two moments."""
        history = self._histories.get(pair, [(0, Due.MUST_NOT)])
        first = bisect_right(history, from_ns, key=lambda entry: entry[0]) - 1
        last = bisect_right(history, to_ns, key=lambda entry: entry[0])
        return {due for _, due in history[max(first, 0) : last]}

    def disturb(self, now_ns: int, what: str, hosts: Iterable[int] | None = None) -> Disturbance:
        """Begins a disturbance, which lasts until `over_ns` of the result is set."""
        disturbance = Disturbance(what, now_ns, hosts=None if hosts is None else frozenset(hosts))
        self.disturbances.append(disturbance)
        return disturbance

    def fail(self, now_ns: int, what: str) -> None:
        self.violations.append(Violation(now_ns, what))

    # Observations.

    def sent(self, presenter: int, sequence: int, at_ns: int) -> None:
        self._packet(presenter, sequence).sent_ns = at_ns

    def received(self, pair: Pair, sequence: int, at_ns: int) -> None:
        packet = self._packet(pair.presenter, sequence)
        packet.copies[(pair.viewer, pair.udp_port)] += 1
        packet.first_ns = packet.first_ns or at_ns

    def _packet(self, presenter: int, sequence: int) -> _Packet:
        return self._packets.setdefault((presenter, sequence), _Packet(None))

    # Judging.

    def judge(self, now_ns: int) -> None:
        """Judges and forgets the packets that were sent long enough before `now_ns`."""
        for (presenter, sequence), packet in list(self._packets.items()):
            at_ns = packet.sent_ns or packet.first_ns
            if at_ns + SETTLED_NS <= now_ns:
                del self._packets[presenter, sequence]
                if packet.sent_ns is None:
                    self.fail(at_ns, f"copies of packet {sequence} of h{presenter}, never sent")
                else:
                    self._judge(presenter, sequence, packet, packet.sent_ns)
        self._forget(now_ns)

    def _judge(self, presenter: int, sequence: int, packet: _Packet, sent_ns: int) -> None:
        to_ns = sent_ns + IN_FLIGHT_NS
        name = f"packet {sequence} of h{presenter}"
        self.n_packets += 1
        self.n_copies += packet.copies.total()
        for (viewer, udp_port), n_copies in packet.copies.items():
            pair = Pair(presenter, viewer, udp_port)
            if self.due(pair, sent_ns, to_ns) == {Due.MUST_NOT}:
                self.fail(sent_ns, f"{name} came to h{viewer}:{udp_port}, who must not have it")
            if n_copies > 1:
                self.fail(sent_ns, f"{name} came to h{viewer}:{udp_port} {n_copies} times")
        required = [
            pair
            for pair in self._histories
            if pair.presenter == presenter and self.due(pair, sent_ns, to_ns) == {Due.MUST}
        ]
        self.n_required += len(required)
        missing = [pair for pair in required if (pair.viewer, pair.udp_port) not in packet.copies]
        if missing:
            self._account(name, sent_ns, missing, nobody_got_it=len(missing) == len(required))

    def _account(
        self, name: str, sent_ns: int, missing: list[Pair], *, nobody_got_it: bool
    ) -> None:
        """Excuses or reports missing copies. A packet without any copy counts as one loss."""
        charged: set[int] = set()
        for pair in missing:
            excuse = next(
                (
                    place
                    for place, disturbance in enumerate(self.disturbances)
                    if disturbance.covers(pair, sent_ns, sent_ns + IN_FLIGHT_NS)
                ),
                None,
            )
            if excuse is None:
                self.fail(sent_ns, f"{name} did not come to h{pair.viewer}:{pair.udp_port}")
                continue
            self.n_excused += 1
            if not (nobody_got_it and excuse in charged):
                self.disturbances[excuse].n_missing += 1
            charged.add(excuse)

    def _forget(self, now_ns: int) -> None:
        """Drops histories and disturbances that no later packet needs."""
        horizon_ns = now_ns - SETTLED_NS - IN_FLIGHT_NS
        for history in self._histories.values():
            n_old = bisect_right(history, horizon_ns, key=lambda entry: entry[0]) - 1
            if n_old > 0:
                del history[:n_old]
        self.disturbances = [
            one
            for one in self.disturbances
            if one.over_ns is None or one.over_ns + IN_FLIGHT_NS > horizon_ns
        ]
