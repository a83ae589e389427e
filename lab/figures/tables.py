"""The tables of a study's loads: our results, alone and beside the published ones. No I/O."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from lab.figures.table import Column, Table, tabulate
from lab.results.published import PUBLISHED_ONLY, PublishedCost, PublishedTable
from lab.results.runs import RunRow, SummaryRow
from lab.results.series import CONVERSATION_MS, MUSICIANS_MS, Results, Series, label_of, load_of

PLACE = 50
"""The viewer whose delay is compared with the first viewer's."""
NONE = "-"
COMPARISONS = {0.15: 9, 0.076: 10}
"""By bitrate in Mbit/s: the number of the thesis' table that compares SFUs at this bitrate."""
SOURCE_OF_COMPARISONS = "thesis"


def tables(results: Results) -> list[Table]:
    """Makes all tables for which there are results.

    These are a table of how many viewers each SFU serves, an overview of each part, our results
    beside published summaries and beside published runs, and the tables of `comparisons`.
    """
    found = [answers(results)] if results.series else []
    for part in results.experiment.loads:
        if series := results.series_of(part):
            found.append(overview(part.part, part.about, series))
    published = [(one, table) for one in results.series if (table := one.published)]
    found += [beside(one, table) for one, table in published]
    found += [runs_beside(one, table) for one, table in published if table.runs]
    return found + comparisons(results)


def milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return NONE
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3f}"


def times(value: float | None) -> str:
    """Writes a ratio to three digits, or as a whole number if it is 1000 or more."""
    if value is None:
        return ""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def written(form: str, none: str = "") -> Callable[[float | None], str]:
    """Returns a function that writes a number in the format `form`, and `none` for None."""
    return lambda value: none if value is None else f"{value:{form}}"


microseconds = written(",.1f", NONE)
seconds = written(".6f")
"""Writes a delay in seconds with six decimals, as the published tables do."""
percent = written(".2f")
kbps = written(".3f")
whole = written("d")


def few(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


def answers(results: Results) -> Table:
    """Makes the table of how many viewers each SFU serves.

    The table also says how much longer the fiftieth viewer waits than the first.
    """
    rows: list[tuple[str, ...]] = []
    for one in results.series:
        at_place = one.place(PLACE)
        rows.append(
            (
                one.part.part,
                label_of(one.row, one.variant),
                str(one.served(MUSICIANS_MS)),
                str(one.served(CONVERSATION_MS)),
                milliseconds(at_place.first_s) if at_place else NONE,
                milliseconds(at_place.other_s) if at_place else NONE,
                milliseconds(at_place.other_s - at_place.first_s) if at_place else NONE,
                str(at_place.viewers) if at_place else NONE,
            )
        )
    if any(one.part.senders == 1 for one in results.series):
        rows += [_published_only(one) for one in PUBLISHED_ONLY]
    return Table(
        "answers",
        "How many viewers, and what the fiftieth waits",
        (("", 2), ("viewers served within", 2), (f"mean delay of viewer, ms (1 and {PLACE})", 4)),
        (
            "load",
            "row",
            f"{MUSICIANS_MS:g} ms (musicians)",
            f"{CONVERSATION_MS:g} ms (ITU-T G.114)",
            "first",
            f"{PLACE}th",
            "longer by",
            "of viewers",
        ),
        tuple(rows),
        "Served: in most runs no copy is missing, and 99 % of packets have their last copy within "
        "the limit. "
        "“Or more”: no larger number was tried. Of Scallop's software model a cost of 11 to 13 us "
        "a replica is published, no delay: nothing of it was run here.",
    )


def _published_only(one: PublishedCost) -> tuple[str, ...]:
    low_ms, high_ms = ((PLACE - 1) * us / 1e3 for us in (one.low_us, one.high_us))
    return ("published", one.label, *([NONE] * 4), f"{low_ms:.3f} to {high_ms:.3f}", NONE)


def of(form: Callable[[Any], str], name: str) -> Callable[[Any], str]:
    """Returns a function that writes the attribute `name` of a row by the function `form`."""
    return lambda row: form(getattr(row, name))


LAST, CPU = "last copy after, ms", "CPU a packet"
SUMMARY: tuple[Column[SummaryRow], ...] = (
    ("", "row", lambda row: label_of(row.row, row.variant)),
    ("", "viewers", of(str, "viewers")),
    (LAST, "mean", of(milliseconds, "avg_delay_s")),
    (LAST, "95 % low", of(milliseconds, "avg_delay_low_s")),
    (LAST, "95 % high", of(milliseconds, "avg_delay_high_s")),
    (LAST, "p50", of(milliseconds, "p50_delay_s")),
    (LAST, "p95", of(milliseconds, "p95_delay_s")),
    (LAST, "p99", of(milliseconds, "p99_delay_s")),
    (LAST, "p99.9", of(milliseconds, "p999_delay_s")),
    (LAST, "max", of(milliseconds, "max_delay_s")),
    ("ms", "first copy, mean", of(milliseconds, "first_copy_avg_s")),
    ("ms", "jitter", of(milliseconds, "jitter_avg_s")),
    ("copies", "lost, %", of(percent, "loss_pct")),
    ("copies", "twice", of(str, "duplicates")),
    ("copies", "out of order", of(str, "misordered")),
    (CPU, "SFU, us", of(microseconds, "sfu_cpu_us_per_packet")),
    (CPU, "of it kernel, us", of(microseconds, "kernel_cpu_us_per_packet")),
)


def overview(part: str, about: str, series: Sequence[Series]) -> Table:
    return tabulate(
        f"load-{part}",
        f"Load “{part}”{': ' + about if about else ''}",
        SUMMARY,
        [row for one in series for row in one.summaries],
        "Mean of the runs' means, its interval by bootstrap over runs and blocks of ten packets; "
        "jitter is RFC 3550's, the average over streams and viewers; CPU is of the SFU's processes "
        "with their system calls; the kernel's part is sampled by its tick, and has interrupts of "
        "the SFU's processor.",
    )


def beside(one: Series, table: PublishedTable) -> Table:
    """The table that sets our results beside a published summary."""

    def theirs(form: Callable[[Any], str], name: str) -> Callable[[SummaryRow], str]:
        return lambda row: form(getattr(table.at(row.viewers), name, None))

    def ratio(row: SummaryRow) -> str:
        published, average = table.at(row.viewers), average_of(row, table)
        return times(published.avg_delay_s / average if published and average else None)

    source = table.source
    columns: list[Column[SummaryRow]] = [
        ("", "viewers", of(str, "viewers")),
        ("ours", "min delay, s", of(seconds, "min_delay_s")),
        ("ours", "max delay, s", of(seconds, "max_delay_s")),
        ("ours", "avg delay, s", lambda row: seconds(average_of(row, table))),
        ("ours", "change, %", of(percent, "avg_delay_change_vs_previous_viewers_pct")),
        ("ours", "stddev between runs, s", of(seconds, "stddev_of_avg_delay_between_runs_s")),
        ("ours", "packets lost", of(few, "avg_packets_lost_in")),
        ("ours", "copies missing", of(few, "avg_copies_missing")),
        (source, "min delay, s", theirs(seconds, "min_delay_s")),
        (source, "max delay, s", theirs(seconds, "max_delay_s")),
        (source, "avg delay, s", theirs(seconds, "avg_delay_s")),
        (source, "change, %", theirs(percent, "change_pct")),
        (source, "packets lost", theirs(few, "packets_lost")),
        (source, "packets", theirs(whole, "packets")),
        (source, "volume, kbit", theirs(few, "volume_kbit")),
        (f"{source} / ours", "avg delay", ratio),
    ]
    return tabulate(
        f"published-{one.key}",
        f"{table.title} ({source}); ours: {label_of(one.row, one.variant)}",
        columns,
        one.summaries,
        why(one, table),
    )


def average_of(row: SummaryRow, table: PublishedTable) -> float | None:
    return row.avg_copy_delay_s if table.is_per_copy else row.avg_delay_s


def runs_beside(one: Series, table: PublishedTable) -> Table:
    """The table that sets our runs beside a published table with a row for each run."""

    def theirs(form: Callable[[Any], str], name: str) -> Callable[[RunRow], str]:
        return lambda run: form(getattr(table.run(run.viewers, run.run), name, None))

    columns: list[Column[RunRow]] = [
        ("", "viewers", of(str, "viewers")),
        ("", "run", of(str, "run")),
        ("ours", "duration, s", of(seconds, "duration_s")),
        ("ours", "min delay, s", of(seconds, "min_delay_s")),
        ("ours", "max delay, s", of(seconds, "max_delay_s")),
        ("ours", "avg delay, s", of(seconds, "avg_delay_s")),
        ("ours", "stddev, s", of(seconds, "stddev_delay_s")),
        ("ours", "p99, s", of(seconds, "p99_delay_s")),
        ("ours", "packets in", of(str, "packets_in")),
        ("ours", "packets out", of(str, "packets_out")),
        ("ours", "packets lost", of(str, "packets_lost_in")),
        ("ours", "true bitrate, kbit/s", of(kbps, "true_bitrate_kbps")),
        ("ours", "repeats", of(str, "repeats")),
        (table.source, "min delay, s", theirs(seconds, "min_delay_s")),
        (table.source, "max delay, s", theirs(seconds, "max_delay_s")),
        (table.source, "avg delay, s", theirs(seconds, "avg_delay_s")),
        (table.source, "packets in", theirs(whole, "packets_in")),
        (table.source, "packets out", theirs(whole, "packets_out")),
        (table.source, "packets lost", theirs(whole, "packets_lost")),
        (table.source, "true bitrate, kbit/s", theirs(kbps, "true_bitrate_kbps")),
    ]
    return tabulate(
        f"published-runs-{one.key}",
        f"{table.runs_title} ({table.source}); ours: {label_of(one.row, one.variant)}",
        columns,
        one.runs,
        "",
    )


@dataclass(frozen=True, slots=True)
class _Rivals:
    """Two SFUs of the thesis and ours under one load, maybe from different parts."""

    bitrate_mbps: float
    p4: Series
    userspace: Series
    replication: Series | None


def comparisons(results: Results) -> list[Table]:
    """Makes counterparts of the thesis' Tables 9 and 10.

    There are such tables for each load under which both SFUs of the thesis ran.
    """
    found: dict[tuple[float, str], _Rivals] = {}
    for userspace in results.series:
        load = load_of(userspace.part)
        if userspace.row != "userspace" or load.bitrate_mbps is None:
            continue
        alike = [one for one in results.series if load_of(one.part) == load]
        for p4 in (one for one in alike if one.row == "p4_recirculation"):
            same = (
                one for one in alike if (one.row, one.variant) == ("p4_replication", p4.variant)
            )
            rivals = _Rivals(load.bitrate_mbps, p4, userspace, next(same, None))
            found.setdefault((load.bitrate_mbps, p4.variant), rivals)
    return [_comparison(rivals) for rivals in found.values()]


def _comparison(rivals: _Rivals) -> Table:
    load = f"{rivals.bitrate_mbps:g} Mbit/s"
    number = COMPARISONS.get(rivals.bitrate_mbps)
    title = f"Table {number}: Comparison" if number else "Comparison"
    source = f"({SOURCE_OF_COMPARISONS}); " if number else ""
    viewers = [
        one.viewers for one in rivals.userspace.summaries if rivals.p4.at(one.viewers) is not None
    ]
    return Table(
        f"comparison-{rivals.bitrate_mbps:g}mbps-{rivals.p4.variant.replace(' ', '-')}",
        f"{title} of P4-based SFU and user space SFU at {load} {source}ours: {rivals.p4.variant}",
        (("", 1), ("ours: average delay, s", 3), ("ours", 1), (SOURCE_OF_COMPARISONS, 3)),
        (
            "viewers",
            "P4, recirculation",
            "P4, replication",
            "user space",
            "P4 recirculation faster, %",
            "P4 avg delay, s",
            "user space avg delay, s",
            "P4 faster, %",
        ),
        tuple(_comparison_row(rivals, one) for one in viewers),
        _why_comparison(rivals),
    )


def _comparison_row(rivals: _Rivals, viewers: int) -> tuple[str, ...]:
    ours = [
        row.avg_delay_s if one is not None and (row := one.at(viewers)) else None
        for one in (rivals.p4, rivals.replication, rivals.userspace)
    ]
    published = [_published_s(one, viewers) for one in (rivals.p4, rivals.userspace)]
    return (
        str(viewers),
        *(seconds(value) for value in ours),
        percent(faster_pct(ours[0], ours[2])),
        *(seconds(value) for value in published),
        percent(faster_pct(*published)),
    )


def _published_s(one: Series, viewers: int) -> float | None:
    row = one.published.at(viewers) if one.published else None
    return row.avg_delay_s if row else None


def faster_pct(p4_s: float | None, userspace_s: float | None) -> float | None:
    """The thesis' "P4-based faster (%)": the share of the user-space delay that is saved."""
    if p4_s is None or not userspace_s:
        return None
    return (1 - p4_s / userspace_s) * 100


def _why_comparison(rivals: _Rivals) -> str:
    both = [
        (theirs.viewers, ours.avg_delay_s, theirs.avg_delay_s)
        for theirs in rivals.userspace.summaries
        if (ours := rivals.p4.at(theirs.viewers)) is not None
        and ours.avg_delay_s is not None
        and theirs.avg_delay_s is not None
    ]
    if not both:
        return "No number of viewers was measured with both SFUs."
    viewers, p4_s, userspace_s = both[-1]
    text = (
        f"At {count_viewers(viewers)} the user-space SFU takes {duration(userspace_s)} where the "
        f"recirculating P4 SFU takes {duration(p4_s)}, {times(userspace_s / p4_s)} times as long"
    )
    published_p4_s, published_s = (
        _published_s(one, viewers) for one in (rivals.p4, rivals.userspace)
    )
    if published_p4_s and published_s:
        text += f" (in the thesis {times(published_s / published_p4_s)} times)"
    return (
        f"{text}. The P4 SFU's delay is work, which the machine of today does faster than BMv2 in "
        "the thesis' virtual machine; the user-space SFU's is mostly waiting for the kernel, which "
        "a faster processor does not shorten."
    )


# Sentences that explain why our results differ, with numbers from the rows.

QUEUED_FACTOR = 3
"""Packets count as queued if the average delay is more than this many times the smallest delay,
which is the delay of a packet that met no queue."""


def duration(value: float) -> str:
    """Writes a time to three digits, in seconds, milliseconds or microseconds."""
    if value >= 1:
        return f"{value:.3g} s"
    return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} us"


def count_viewers(n: int) -> str:
    """Writes `n` and "viewer", or `n` and "viewers"."""
    return f"{n} viewer{'s' if n > 1 else ''}"


def queues_from(points: Sequence[tuple[int, float, float]], interval_s: float) -> int | None:
    """The least number of viewers at which packets wait for earlier ones; None if there is none.

    A point is the number of viewers, the smallest and the average delay. Packets wait if the
    average exceeds both the time between packets and three times the smallest delay.
    """
    for viewers, least_s, average_s in points:
        if average_s > interval_s and average_s > QUEUED_FACTOR * least_s:
            return viewers
    return None


def why(one: Series, table: PublishedTable) -> str:
    """Writes the sentences under a table that sets our results beside published ones."""
    interval_s = _interval_s(one)
    ours = [
        (row.viewers, row.min_delay_s, average)
        for row in one.summaries
        if row.min_delay_s is not None and (average := average_of(row, table)) is not None
    ]
    theirs = [(row.viewers, row.min_delay_s, row.avg_delay_s) for row in table.rows]
    if not ours:
        return "No packet had a copy."
    largest = max(ours, key=lambda point: point[2])
    sentences = [
        f"Averages are over {'all copies' if table.is_per_copy else 'last copies'}, as published.",
        f"Published: {_queueing(theirs, interval_s)}.",
        f"Ours: {_queueing(ours, interval_s)}; the largest average is {duration(largest[2])}, at "
        f"{count_viewers(largest[0])}.",
    ]
    if one.row.startswith("userspace"):
        sentences.append(_why_userspace(one))
    else:
        sentences.append(
            "The source ran BMv2 in a virtual machine with Mininet and Wireshark beside it."
        )
    return " ".join(sentences)


def _interval_s(one: Series) -> float:
    """The time from one packet to the next, over all senders."""
    first = one.runs[0]
    return first.duration_s / max(1, first.packets_in)


def _queueing(points: Sequence[tuple[int, float, float]], interval_s: float) -> str:
    start = queues_from(points, interval_s)
    if start is None:
        return "at no number of viewers do packets wait for earlier ones"
    return (
        f"from {count_viewers(start)} on packets wait for earlier ones, so the delay grows as long "
        "as they come"
    )


def _why_userspace(one: Series) -> str:
    copies = sum(run.packets_out for run in one.runs)
    if not copies:
        return "No packet had a copy."
    cpu_ms = sum(run.sfu_cpu_s for run in one.runs) / copies * 1e3
    lost = sum(run.copies_missing for run in one.runs) / (
        copies + sum(run.copies_missing for run in one.runs)
    )
    return (
        f"A copy takes {cpu_ms:.2g} ms of processor time here, and longer until it has left: each "
        "`sendp` opens and closes a packet socket, and closing one waits for the kernel, which a "
        "faster processor does not shorten. When that takes longer than the time between packets, "
        f"the receive buffer of `sniff` fills and the rest is dropped: {lost:.0%} of the copies."
    )
