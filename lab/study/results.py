"""What a study came to, as tables, figures and report look at it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from lab.study.analysis import Check, ExtendedRow, Run, SummaryRow, checks
from lab.study.analysis import extended_rows as to_extended
from lab.study.analysis import summary_rows as to_summary
from lab.study.definitions import BITRATES_MBPS, Sfu
from lab.study.reference import Published


@dataclass(frozen=True, slots=True)
class Results:
    """All rows of a study, and the published ones beside them."""

    extended: tuple[ExtendedRow, ...]
    summaries: tuple[SummaryRow, ...]
    published: Published

    @property
    def checks(self) -> list[Check]:
        """What must hold."""
        return checks(self.extended)

    @property
    def sfus(self) -> list[Sfu]:
        """The SFUs measured."""
        return [sfu for sfu in Sfu if any(row.sfu is sfu for row in self.summaries)]

    @property
    def bitrates_mbps(self) -> list[float]:
        """The bitrates measured, the thesis' ones in its order."""
        found = {row.bitrate_mbps for row in self.summaries}
        known = [bitrate for bitrate in BITRATES_MBPS if bitrate in found]
        return known + sorted(found - set(known), reverse=True)

    def series(self, sfu: Sfu, bitrate_mbps: float) -> list[SummaryRow]:
        """The summary rows of one SFU at one bitrate, by viewers."""
        wanted = (sfu, bitrate_mbps)
        return [row for row in self.summaries if (row.sfu, row.bitrate_mbps) == wanted]

    def runs(self, sfu: Sfu, bitrate_mbps: float) -> list[ExtendedRow]:
        """The runs of one SFU at one bitrate."""
        wanted = (sfu, bitrate_mbps)
        return [row for row in self.extended if (row.sfu, row.bitrate_mbps) == wanted]


def results_of(runs: Sequence[Run], published: Published) -> Results:
    """The results of measured runs."""
    extended = to_extended(runs)
    return Results(tuple(extended), tuple(to_summary(extended)), published)
