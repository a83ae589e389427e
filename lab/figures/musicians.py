"""How many musicians a row (an SFU) serves, as tables and figures. No I/O.

The loads for musicians are those whose bound is on p99.9.
"""

from collections.abc import Callable, Sequence

from lab.figures.charts import Lines
from lab.figures.loads import delay
from lab.figures.table import Column, Table, tabulate
from lab.figures.tables import milliseconds
from lab.results.runs import RunRow, SummaryRow
from lab.results.series import Results, Series, label_of
from lab.results.verdicts import Promise
from lab.rows import ROWS

PERCENTILE = 99.9
PLAYERS_MIN = 8
"""How many players each P4 row must carry at least: as many as a chamber group with guests has."""
PUNTED_US_MAX = 5.0
"""The processor time that the switch's process may take for a packet which the kernel forwards.
The process only reads counters then; for a packet that it forwards itself it needs more time."""
NONE = "-"


def of_musicians(results: Results) -> list[Series]:
    return [one for one in results.series if one.part.limit_percentile == PERCENTILE]


def players(one: Series) -> int:
    """How many players a row serves; 0 if it did not serve even the smallest number tried."""
    most = one.served(one.part.limit_ms, PERCENTILE).most
    return most + 1 if most else 0


def musicians_tables(results: Results) -> list[Table]:
    """A table for each bound on the added delay: how many players each row serves within it.

    There is no table if the study has no loads for musicians.
    """
    found = of_musicians(results)
    limits = sorted({one.part.limit_ms for one in found})
    return [
        _table(limit_ms, [one for one in found if one.part.limit_ms == limit_ms])
        for limit_ms in limits
    ]


def musicians_figures(results: Results) -> list[Lines]:
    """Makes figures of added delay (p50 and p99.9) against players.

    The figure of p99 is not made here, because every load has one.
    """
    figures = []
    for part in results.experiment.loads:
        series = [one for one in of_musicians(results) if one.part.part == part.part]
        if any(len(one.summaries) > 1 for one in series):
            for name, percentile in (("p50", "p50_delay_s"), ("p99.9", "p999_delay_s")):
                figures.append(delay(part.part, part.about, series, percentile, name))
    return figures


def musicians_promises(results: Results) -> list[Promise]:
    found = of_musicians(results)
    carried = [
        (_name(one), f"{players(one)}", players(one) >= PLAYERS_MIN)
        for one in found
        if ROWS[one.row].is_p4 and one.part.senders == "everybody"
        if max(run.viewers for run in one.runs) + 1 >= PLAYERS_MIN
        or any(run.is_broken for run in one.runs)
    ]
    used = [
        (_name(one), f"{us:.1f}", us <= PUNTED_US_MAX)
        for one in found
        if one.runs[0].engine == "kernel"
        for us in (one.summaries[-1].sfu_cpu_us_per_packet,)
        # The time of a thread that ended during the run is missing, so the value may be below 0.
        if one.runs[0].wait == "shared" and us >= 0
    ]
    return [
        *_promise(f"musicians: each P4 row carries {PLAYERS_MIN} players or more", carried),
        *_promise(
            "musicians: what the kernel engine forwards costs the switch's process at most "
            f"{PUNTED_US_MAX:g} us a packet",
            used,
        ),
    ]


def _promise(name: str, values: Sequence[tuple[str, str, bool]]) -> list[Promise]:
    if not values:
        return []
    found = "; ".join(
        f"{what} {value}{'' if holds else ' (does not hold)'}" for what, value, holds in values
    )
    return [Promise(name, all(holds for *_, holds in values), found)]


def _name(one: Series) -> str:
    return f"{one.part.part}, {label_of(one.row, one.variant)}:"


def _table(limit_ms: float, series: Sequence[Series]) -> Table:
    def added(column: str) -> Callable[[Series], str]:
        def of(one: Series) -> str:
            return _at(_most(one), lambda summary: milliseconds(getattr(summary, column)))

        return of

    columns: list[Column[Series]] = [
        ("", "load", lambda one: one.part.part),
        ("", "row", lambda one: label_of(one.row, one.variant)),
        ("", "musicians", _players_in_words),
        ("added with so many, ms", "p50", added("p50_delay_s")),
        ("added with so many, ms", "p99", added("p99_delay_s")),
        ("added with so many, ms", "p99.9", added("p999_delay_s")),
        ("then", "processor, %", _processor),
        ("with the next size", "musicians", lambda one: _next(one, lambda it: str(it.viewers + 1))),
        (
            "with the next size",
            "p99.9, ms",
            lambda one: _next(one, lambda it: milliseconds(it.p999_delay_s)),
        ),
        ("with the next size", "lost, %", lambda one: _next(one, lambda it: f"{it.loss_pct:.2f}")),
    ]
    return tabulate(
        f"musicians-{limit_ms:g}ms",
        f"How many musicians before {limit_ms:g} ms are added at p99.9?",
        columns,
        series,
        "The most that were tried and carried: in most runs no copy is missing, and of 1,000 "
        f"packets 999 have reached everybody within {limit_ms:g} ms. Added is all from before a "
        "player's interface to the last listener's, so also the passes through the veth pairs: a "
        "bridge that floods (`bridge`) and a relay by hand (`xdp_relay`) show what these take. "
        "Processor: what the row's processes and kernel threads use of one; of what the kernel "
        "does on the sender's processor none is theirs. What spins takes a whole one. On a stage "
        "eight of them play.",
    )


def _most(one: Series) -> SummaryRow | None:
    return one.at(one.served(one.part.limit_ms, PERCENTILE).most)


def _at(summary: SummaryRow | None, form: Callable[[SummaryRow], str]) -> str:
    return form(summary) if summary is not None else NONE


def _players_in_words(one: Series) -> str:
    served = one.served(one.part.limit_ms, PERCENTILE)
    if not served.most:
        return f"fewer than {one.summaries[0].viewers + 1}"
    more = " or more" if served.first_bad is None else ""
    return f"{served.most + 1}{more}"


def _next(one: Series, form: Callable[[SummaryRow], str]) -> str:
    bad = one.served(one.part.limit_ms, PERCENTILE).first_bad
    return _at(None if bad is None else one.at(bad), form)


def _processor(one: Series) -> str:
    at: Sequence[RunRow] = [
        run
        for run in one.runs
        if run.viewers == one.served(one.part.limit_ms, PERCENTILE).most and run.duration_s
    ]
    if not at:
        return NONE
    return f"{100 * sum(run.sfu_cpu_s / run.duration_s for run in at) / len(at):.0f}"
