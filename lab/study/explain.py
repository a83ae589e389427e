"""Why ours differ from the published figures: sentences with numbers out of the rows. Pure.

What is said of causes was looked at: `sendp` without a socket opens and closes one, and closing a
packet socket waits for the kernel (an RCU grace period) without using the processor.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.study.definitions import N_PACKETS, Sfu
from lab.study.results import Results
from lab.traffic import FRAME_LEN_BYTES


def interval_ms(bitrate_mbps: float) -> float:
    """The time from one packet to the next."""
    return FRAME_LEN_BYTES * 8 / bitrate_mbps / 1000


def duration(seconds: float) -> str:
    """Seconds or milliseconds, whichever reads better, to three digits."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def times(value: float) -> str:
    """A ratio, to three digits where it has no more before the point."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


@dataclass(frozen=True, slots=True)
class Point:
    """The delays at one number of viewers."""

    viewers: int
    min_s: float
    avg_s: float


QUEUED_FACTOR = 3
"""Where packets queue the average is many times the smallest delay, which met no queue."""


def queues_from(points: Iterable[Point], bitrate_mbps: float) -> int | None:
    """The viewers from which on packets wait for earlier ones.

    There the average delay exceeds both the time between packets and three times the smallest.
    """
    limit_s = interval_ms(bitrate_mbps) / 1000
    return next(
        (
            point.viewers
            for point in points
            if point.avg_s > limit_s and point.avg_s > QUEUED_FACTOR * point.min_s
        ),
        None,
    )


def why(results: Results, sfu: Sfu, bitrate_mbps: float) -> str:
    """The sentence under a table or figure of one SFU at one bitrate."""
    if not results.published.series(sfu, bitrate_mbps):
        return "The thesis has no figures for this."
    explained = _why_p4 if sfu.is_p4 else _why_userspace
    return explained(results, sfu, bitrate_mbps)


def _why_p4(results: Results, sfu: Sfu, bitrate_mbps: float) -> str:
    ours = _points(results.series(sfu, bitrate_mbps))
    published = _points(results.published.series(sfu, bitrate_mbps))
    if not ours:
        return "No packet had a copy."
    largest = max(ours, key=lambda point: point.avg_s)
    sentences = [
        f"The thesis ran BMv2 in a VirtualBox machine: {_queueing(published, bitrate_mbps)}.",
        f"Ours: {_queueing(ours, bitrate_mbps)}; the largest average is "
        f"{duration(largest.avg_s)}, at {count_viewers(largest.viewers)}.",
    ]
    if sfu is Sfu.P4_REPLICATION:
        sentences.append(
            "The thesis has no replicating SFU: its recirculating one stands beside it."
        )
    return " ".join(sentences)


def _queueing(points: Sequence[Point], bitrate_mbps: float) -> str:
    start = queues_from(points, bitrate_mbps)
    if start is None:
        return "at no number of viewers do packets wait for earlier ones"
    return (
        f"from {count_viewers(start)} on ({start * bitrate_mbps:.3g} Mbit/s out) packets wait for "
        "earlier ones, so the delay grows through the burst"
    )


def count_viewers(n: int) -> str:
    """`n` and the noun in its number."""
    return f"{n} viewer{'s' if n > 1 else ''}"


def _points(rows: Iterable["_Delays"]) -> list[Point]:
    return [
        Point(row.viewers, row.min_delay_s, row.avg_delay_s)
        for row in rows
        if row.min_delay_s is not None and row.avg_delay_s is not None
    ]


def _why_userspace(results: Results, sfu: Sfu, bitrate_mbps: float) -> str:
    rows = results.runs(sfu, bitrate_mbps)
    published = [
        row
        for row in results.published.runs
        if (row.sfu, row.bitrate_mbps) == (Sfu.USERSPACE, bitrate_mbps)
    ]
    copies = sum(row.packets_out for row in rows)
    if not copies:
        return "No packet had a copy."
    cpu_ms = sum(row.sfu_cpu_s for row in rows) / copies * 1000
    lost = sum(row.packets_lost_in for row in rows) / len(rows) / N_PACKETS
    published_lost = sum(row.packets_lost for row in published) / len(published) / N_PACKETS
    return (
        f"Per viewer the fastest packet needs {_fastest(rows)} here and {_fastest(published)} in "
        f"the thesis; only {cpu_ms:.2g} ms of ours is processor time: each `sendp` opens and "
        "closes a packet socket, and closing one waits for the kernel. When that takes longer than "
        f"the {interval_ms(bitrate_mbps):.3g} ms between packets, the receive buffer of `sniff` "
        f"(64 KiB are asked for) fills and the rest is dropped: {lost:.0%} of the packets here, "
        f"{published_lost:.0%} in the thesis. Equal runs differ by up to {_spread(rows):.2g} times "
        f"here, {_spread(published):.2g} times in the thesis, whose virtual machine had Mininet "
        "and Wireshark to run beside the SFU."
    )


class _Delays(Protocol):
    @property
    def viewers(self) -> int: ...
    @property
    def min_delay_s(self) -> float | None: ...
    @property
    def avg_delay_s(self) -> float | None: ...


def _fastest(rows: Iterable[_Delays]) -> str:
    delays_s = [row.min_delay_s / row.viewers for row in rows if row.min_delay_s is not None]
    return duration(min(delays_s))


def _spread(rows: Iterable[_Delays]) -> float:
    by_viewers: dict[int, list[float]] = {}
    for row in rows:
        if row.avg_delay_s is not None:
            by_viewers.setdefault(row.viewers, []).append(row.avg_delay_s)
    return max(max(averages) / min(averages) for averages in by_viewers.values())


def why_comparison(results: Results, bitrate_mbps: float) -> str:
    """The sentence under a comparison of the two SFUs."""
    both = [
        (row.viewers, row.avg_delay_s, other.avg_delay_s)
        for row in results.series(Sfu.P4_RECIRCULATION, bitrate_mbps)
        for other in results.series(Sfu.USERSPACE, bitrate_mbps)
        if row.viewers == other.viewers
        and row.avg_delay_s is not None
        and other.avg_delay_s is not None
    ]
    if not both:
        return "No number of viewers was measured with both SFUs."
    viewers, p4_s, userspace_s = both[-1]
    text = (
        f"At {count_viewers(viewers)} the user-space SFU takes {duration(userspace_s)} where the "
        f"recirculating P4 SFU takes {duration(p4_s)}, {times(userspace_s / p4_s)} times as long"
    )
    published = [
        results.published.summary(sfu, bitrate_mbps, viewers)
        for sfu in (Sfu.P4_RECIRCULATION, Sfu.USERSPACE)
    ]
    if published[0] and published[1]:
        published_ratio = published[1].avg_delay_s / published[0].avg_delay_s
        text += f" (in the thesis {times(published_ratio)} times)"
    return (
        f"{text}. The P4 SFU's delay is work, which the machine of today does faster than BMv2 in "
        "the thesis' virtual machine; the user-space SFU's is mostly waiting for the kernel, which "
        "a faster processor does not shorten."
    )
