"""What the switch promises, held against what was measured. Pure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.bench.fanout_figures import COMPARED, of_kind, row_of
from lab.bench.names import KINDS, NAMES, OURS, kind_name, number, ratio
from lab.bench.results import FanoutRow, Results

RELAY_SHARE_MIN = 0.9
DELAY_RATIO_MAX = 1.2
COMPARED_KINDS = tuple(kind for kind in KINDS if kind[0] != "udp")


@dataclass(frozen=True, slots=True)
class Check:
    """A promise, whether it holds (None: it was not measured), and the measured values."""

    name: str
    holds: bool | None
    found: str

    @property
    def word(self) -> str:
        """For people."""
        return "not measured" if self.holds is None else "holds" if self.holds else "does not hold"


def checks(results: Results) -> list[Check]:
    """All of them, in the order of the report."""
    return [*_fanout_checks(results.fanout)]


def check(name: str, values: Sequence[tuple[str, float, bool]], form: str = ".2f") -> Check:
    """From named values and whether each is as it should be."""
    known = [(what, value, holds) for what, value, holds in values if not math.isnan(value)]
    found = "; ".join(
        f"{what} {number(value, form)}{'' if holds else ' (does not hold)'}"
        for what, value, holds in known
    )
    lacking = [what for what, value, _ in values if math.isnan(value)]
    if lacking:
        found = "; ".join(filter(None, [found, f"not measured: {', '.join(lacking)}"]))
    holds = all(holds for _, _, holds in known) and not lacking if known else None
    return Check(name, holds, found or "nothing was measured")


def _fanout_checks(rows: Sequence[FanoutRow]) -> Iterator[Check]:
    if not rows:
        return
    at = f"at {COMPARED} copies, without loss"
    yield check(
        f"{at}: at least {RELAY_SHARE_MIN:.0%} of the rate of the relay by hand",
        [(what, r, r >= RELAY_SHARE_MIN) for what, r in _beside(rows, "relay")],
    )
    yield check(
        f"{at}: ahead of Open vSwitch on the same kind of port",
        [(what, r, r > 1.0) for what, r in _beside(rows, "ovs")],
    )
    for column, which in (("first_copy_p50_us", "first"), ("last_copy_p50_us", "last")):
        yield check(
            f"at {COMPARED} copies: the {which} copy's median delay within {DELAY_RATIO_MAX:g} "
            "times the relay's",
            [(what, r, r <= DELAY_RATIO_MAX) for what, r in _beside(rows, "relay", column)],
        )


def _beside(
    rows: Sequence[FanoutRow], peer: str, column: str = "copies_per_s_lossless"
) -> Iterator[tuple[str, float]]:
    """Our native rows over a peer's, of each kind of port that both have."""
    for kind in COMPARED_KINDS:
        found = of_kind(rows, kind)
        theirs = row_of(found, peer, "")
        for forwarder in OURS:
            ours = row_of(found, forwarder, "native")
            if theirs is not None and ours is not None:
                value = ratio(getattr(ours, column), getattr(theirs, column))
                yield f"{NAMES[forwarder]}, {kind_name(kind)}:", value
