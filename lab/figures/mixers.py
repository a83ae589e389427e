"""The delay of musicians' programs from mouth to ear, as a table. No I/O."""

from collections.abc import Sequence

from lab.figures.table import Column, Table, tabulate
from lab.results.benchmarks import MixersRow

NOTHING = "nothing"
NAMES = {
    NOTHING: "nothing: their own loop",
    "p4_conference": "P4, conference service",
    "hub": "JackTrip's hub",
    "server": "Jamulus' server",
}
PROGRAMS = {"jacktrip": "JackTrip", "jamulus": "Jamulus"}


def tables(rows: Sequence[MixersRow]) -> list[Table]:
    if not rows:
        return []
    own = {row.program: row.p50_ms for row in rows if row.between == NOTHING}

    def added(row: MixersRow) -> str:
        if row.between == NOTHING:
            return ""
        return f"{row.p50_ms - own[row.program]:+.1f}" if row.program in own else "not known"

    columns: list[Column[MixersRow]] = [
        ("", "clients", lambda row: f"{row.clients} {PROGRAMS.get(row.program, row.program)}"),
        ("", "between them", lambda row: NAMES.get(row.between, row.between)),
        ("mouth to ear, ms", "p50", lambda row: f"{row.p50_ms:.1f}"),
        ("mouth to ear, ms", "p99", lambda row: f"{row.p99_ms:.1f}"),
        ("mouth to ear, ms", "max", lambda row: f"{row.max_ms:.1f}"),
        ("", "added to their own, ms", added),
        ("", "clicks", lambda row: f"{row.due}"),
        ("", "not heard", lambda row: f"{row.lost}"),
        ("", "processor, %", lambda row: "" if row.between == NOTHING else f"{row.cpu_pct:.0f}"),
    ]
    return [
        tabulate(
            "table-mixers",
            "Musicians' programs from mouth to ear",
            columns,
            rows,
            "Added: the median less that of two JackTrips with nothing between them. The clients' "
            "buffers, which are the largest part, are JackTrip's default of 4 packets, and what "
            "Jamulus sets by itself. The processor is that of what is between them; a switch that "
            "spins takes a whole one.",
        )
    ]
