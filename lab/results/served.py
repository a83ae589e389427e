"""`served.csv`: how many viewers each row (SFU) serves under a load. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass

from lab.results.series import CONVERSATION_MS, MUSICIANS_MS, Series, Served

FILE = "served.csv"
LIMITS_MS = (MUSICIANS_MS, CONVERSATION_MS)


@dataclass(frozen=True, slots=True)
class ServedRow:
    """How many viewers a row serves within a limit.

    `first_bad` is the smallest number of viewers that was tried and not served, or None.
    """

    part: str
    row: str
    engine: str
    port: str
    wait: str
    limit_ms: float
    most: int
    first_bad: int | None

    @property
    def served(self) -> Served:
        return Served(self.most, self.first_bad)


def served_of(series: Iterable[Series]) -> list[ServedRow]:
    """Returns how many viewers each row serves, in each variant and within each limit."""
    found = []
    for one in series:
        variant = (one.summaries[0].engine, one.summaries[0].port, one.summaries[0].wait)
        for limit_ms in LIMITS_MS:
            served = one.served(limit_ms)
            what = (one.part.part, one.row, *variant, limit_ms)
            found.append(ServedRow(*what, served.most, served.first_bad))
    return found
