"""`checks.csv`: checks (claims about a study's loads and benchmarks), and which hold. No I/O."""

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass

from lab.csvs import text_of
from lab.results.series import Check

FILE = "checks.csv"
WORDS = {True: "holds", False: "does not hold", None: "not measured"}
_COLUMNS = ["check", "verdict", "found"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A check, whether it holds (None: not measured), and what was found."""

    name: str
    holds: bool | None
    found: str


@dataclass(frozen=True, slots=True)
class Promise(Verdict):
    """A check of a benchmark, also called a promise."""

    is_of_speed: bool = True
    """Whether the promise is about speed. Such a promise means nothing in the short form of a
    study; all other promises must hold in the short form, too."""

    @property
    def word(self) -> str:
        return WORDS[self.holds]

    def is_judged(self, *, is_quick: bool) -> bool:
        """Whether the promise counts in this form of a study."""
        return not (is_quick and self.is_of_speed)


def verdicts_of(checks: Iterable[Check], promises: Iterable[Promise]) -> list[Verdict]:
    return [
        *(
            Verdict(one.name, one.holds, "; ".join(one.failures) or f"{one.n_rows} runs")
            for one in checks
        ),
        *promises,
    ]


def as_csv(verdicts: Iterable[Verdict]) -> str:
    return text_of([_COLUMNS, *([one.name, WORDS[one.holds], one.found] for one in verdicts)])


def read(text: str) -> list[Verdict]:
    words = {word: holds for holds, word in WORDS.items()}
    return [
        Verdict(row["check"], words[row["verdict"]], row["found"])
        for row in csv.DictReader(io.StringIO(text))
    ]
