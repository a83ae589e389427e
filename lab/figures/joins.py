"""Makes a table of participants who join a conference service. No I/O."""

from collections.abc import Sequence

from lab.figures.table import Column, Table, tabulate
from lab.results.benchmarks import JoinsRow


def tables(rows: Sequence[JoinsRow]) -> list[Table]:
    if not rows:
        return []
    columns: list[Column[JoinsRow]] = [
        ("", "participants", lambda row: f"{row.participants}"),
        ("", "joins a second", lambda row: f"{row.joins_per_s}"),
        ("", "run", lambda row: f"{row.round + 1}"),
        ("join to first packet, ms", "p50", lambda row: f"{row.p50_ms:.1f}"),
        ("join to first packet, ms", "p99", lambda row: f"{row.p99_ms:.1f}"),
        ("join to first packet, ms", "max", lambda row: f"{row.max_ms:.1f}"),
        ("", "joins", lambda row: f"{row.joins:,}"),
        ("", "failed", lambda row: f"{row.failed}"),
        ("delay of packets, ms", "p50", lambda row: f"{row.delay_p50_ms:.2f}"),
        ("delay of packets, ms", "p99", lambda row: f"{row.delay_p99_ms:.2f}"),
        ("", "packets", lambda row: f"{row.packets:,}"),
        ("", "lost", lambda row: f"{row.lost}"),
        ("", "foreign", lambda row: f"{row.foreign}"),
    ]
    return [
        tabulate(
            "table-joins",
            "Joining a conference",
            columns,
            rows,
            "A join is six steps: the request, a subscription each, a hello, a challenge, the "
            "signed answer, and the next packet of the track, of which there are 50 a second, so "
            "that waiting for it alone takes 10 ms in the median. Foreign packets are those of "
            "tracks to which the receiver has not subscribed.",
        )
    ]
