"""Two studies side by side. Pure."""

from collections.abc import Sequence

from lab.study.analysis import SummaryRow
from lab.study.statistics import ratio
from lab.study.tables import few, milliseconds, times

HEADER = (
    "sfu",
    "Mbit/s",
    "viewers",
    "A avg delay ms",
    "B avg delay ms",
    "B / A",
    "A max ms",
    "B max ms",
    "A lost in",
    "B lost in",
)


def compared(a: Sequence[SummaryRow], b: Sequence[SummaryRow]) -> list[tuple[str, ...]]:
    """A row for each SFU, bitrate and number of viewers that is in A or B, in A's order."""
    in_a, in_b = _by_key(a), _by_key(b)
    keys = [*in_a, *(key for key in in_b if key not in in_a)]
    return [_row(in_a.get(key), in_b.get(key)) for key in keys]


def _by_key(rows: Sequence[SummaryRow]) -> dict[tuple[str, float, int], SummaryRow]:
    return {(row.sfu.value, row.bitrate_mbps, row.viewers): row for row in rows}


def _row(a: SummaryRow | None, b: SummaryRow | None) -> tuple[str, ...]:
    one = a or b
    if one is None:
        raise ValueError("a key without a row")
    ours = [_values(row) for row in (a, b)]
    return (
        one.sfu.value,
        f"{one.bitrate_mbps:g}",
        str(one.viewers),
        milliseconds(ours[0][0]),
        milliseconds(ours[1][0]),
        times(ratio(ours[1][0], ours[0][0])),
        milliseconds(ours[0][1]),
        milliseconds(ours[1][1]),
        few(ours[0][2]),
        few(ours[1][2]),
    )


def _values(row: SummaryRow | None) -> tuple[float | None, float | None, float | None]:
    if row is None:
        return None, None, None
    return row.avg_delay_s, row.max_delay_s, row.avg_packets_lost_in
