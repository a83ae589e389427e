"""The counterparts of the thesis' Tables 1 to 18, ours beside the published numbers. Pure."""

from collections.abc import Sequence

from lab.page import Table
from lab.study import explain
from lab.study.analysis import ExtendedRow, SummaryRow
from lab.study.definitions import Sfu
from lab.study.explain import why, why_comparison
from lab.study.numbers import (
    COMPARISON_TABLES,
    FIRST_EXTENDED_TABLE,
    FIRST_SUMMARY_TABLE,
    in_order_of_thesis,
)
from lab.study.results import Results
from lab.study.statistics import ratio


def tables(results: Results) -> list[Table]:
    """All tables that the results have rows for, in the thesis' order."""
    by_number: list[tuple[int, Table]] = []
    for bitrate in results.bitrates_mbps:
        for sfu in results.sfus:
            if results.series(sfu, bitrate):
                number = in_order_of_thesis(FIRST_SUMMARY_TABLE, sfu, bitrate) or 100
                by_number.append((number, summary_table(results, sfu, bitrate)))
                number = in_order_of_thesis(FIRST_EXTENDED_TABLE, sfu, bitrate) or 200
                by_number.append((number, extended_table(results, sfu, bitrate)))
        if results.series(Sfu.P4_RECIRCULATION, bitrate) and results.series(Sfu.USERSPACE, bitrate):
            number = COMPARISON_TABLES.get(bitrate, 50)
            by_number.append((number, comparison_table(results, bitrate)))
    return [table for _, table in sorted(by_number, key=lambda one: one[0])]


def seconds(value: float | None) -> str:
    """A delay in the thesis' unit and digits."""
    return "" if value is None else f"{value:.6f}"


def times(value: float | None) -> str:
    """A ratio."""
    return "" if value is None else explain.times(value).replace(",", "")


def percent(value: float | None) -> str:
    """A change."""
    return "" if value is None else f"{value:.2f}"


def few(value: float | None) -> str:
    """An average count."""
    return "" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")


SUMMARY_GROUPS = (("", 1), ("ours", 8), ("thesis", 4), ("thesis / ours", 1))
SUMMARY_COLUMNS = (
    "viewers",
    "min delay, s",
    "max delay, s",
    "avg delay, s",
    "change, %",
    "stddev between runs, s",
    "packets lost in",
    "packets lost out",
    "copies missing",
    "min delay, s",
    "max delay, s",
    "avg delay, s",
    "packets lost",
    "avg delay",
)


def summary_table(results: Results, sfu: Sfu, bitrate_mbps: float) -> Table:
    """The counterpart of one of Tables 1 to 8."""
    rows = [_summary_row(results, row) for row in results.series(sfu, bitrate_mbps)]
    number = in_order_of_thesis(FIRST_SUMMARY_TABLE, sfu, bitrate_mbps)
    title = f"Summary results for the {sfu.full_name} at {bitrate_mbps:g} Mbit/s"
    return Table(
        *_named(number, f"summary-{bitrate_mbps:g}", sfu, title),
        SUMMARY_GROUPS,
        SUMMARY_COLUMNS,
        tuple(rows),
        why(results, sfu, bitrate_mbps),
    )


def _named(number: int | None, otherwise: str, sfu: Sfu, title: str) -> tuple[str, str]:
    """Key and title; the replicating SFU has the number of the P4 SFU and a letter."""
    variant = "r" if sfu is Sfu.P4_REPLICATION else ""
    if number is None:
        return f"table-{otherwise}mbps-{sfu}", title
    return f"table-{number:02d}{variant}", f"Table {number}{variant}: {title}"


def _summary_row(results: Results, row: SummaryRow) -> tuple[str, ...]:
    published = results.published.summary(row.sfu, row.bitrate_mbps, row.viewers)
    ours = (
        str(row.viewers),
        seconds(row.min_delay_s),
        seconds(row.max_delay_s),
        seconds(row.avg_delay_s),
        percent(row.avg_delay_change_vs_previous_viewers_pct),
        seconds(row.stddev_of_avg_delay_between_runs_s),
        few(row.avg_packets_lost_in),
        few(row.avg_packets_lost_out),
        few(row.avg_copies_missing),
    )
    if published is None:
        return (*ours, "", "", "", "", "")
    return (
        *ours,
        seconds(published.min_delay_s),
        seconds(published.max_delay_s),
        seconds(published.avg_delay_s),
        few(published.avg_packets_lost),
        times(ratio(published.avg_delay_s, row.avg_delay_s)),
    )


EXTENDED_GROUPS = (("", 2), ("ours", 20), ("thesis", 5), ("thesis / ours", 1))
EXTENDED_COLUMNS = (
    "viewers",
    "run",
    "packet size, bytes",
    "duration, s",
    "min delay, s",
    "max delay, s",
    "avg delay, s",
    "stddev, s",
    "p99 delay, s",
    "first copy min, s",
    "first copy avg, s",
    "packets in",
    "packets out",
    "lost in",
    "lost out",
    "copies missing",
    "volume in, kbit",
    "volume out, kbit",
    "change, %",
    "true bitrate, kbit/s",
    "repeats",
    "SFU CPU, s",
    "min delay, s",
    "max delay, s",
    "avg delay, s",
    "stddev, s",
    "packets lost",
    "avg delay",
)


def extended_table(results: Results, sfu: Sfu, bitrate_mbps: float) -> Table:
    """The counterpart of one of Tables 11 to 18."""
    rows = [_extended_row(results, row) for row in results.runs(sfu, bitrate_mbps)]
    number = in_order_of_thesis(FIRST_EXTENDED_TABLE, sfu, bitrate_mbps)
    title = f"Extended results for the {sfu.full_name} at {bitrate_mbps:g} Mbit/s"
    return Table(
        *_named(number, f"extended-{bitrate_mbps:g}", sfu, title),
        EXTENDED_GROUPS,
        EXTENDED_COLUMNS,
        tuple(rows),
        why(results, sfu, bitrate_mbps),
    )


def _extended_row(results: Results, row: ExtendedRow) -> tuple[str, ...]:
    published = results.published.run(row.sfu, row.bitrate_mbps, row.viewers, row.run)
    ours = (
        str(row.viewers),
        str(row.run),
        few(row.packet_size_bytes),
        seconds(row.duration_s),
        seconds(row.min_delay_s),
        seconds(row.max_delay_s),
        seconds(row.avg_delay_s),
        seconds(row.stddev_delay_s),
        seconds(row.p99_delay_s),
        seconds(row.min_first_copy_delay_s),
        seconds(row.avg_first_copy_delay_s),
        str(row.packets_in),
        str(row.packets_out),
        str(row.packets_lost_in),
        str(row.packets_lost_out),
        str(row.copies_missing),
        few(row.volume_in_kbit),
        few(row.volume_out_kbit),
        percent(row.avg_delay_change_vs_previous_run_pct),
        "" if row.true_bitrate_kbps is None else f"{row.true_bitrate_kbps:.3f}",
        str(row.repeats),
        f"{row.sfu_cpu_s:.2f}",
    )
    if published is None:
        return (*ours, "", "", "", "", "", "")
    return (
        *ours,
        seconds(published.min_delay_s),
        seconds(published.max_delay_s),
        seconds(published.avg_delay_s),
        seconds(published.stddev_delay_s),
        str(published.packets_lost),
        times(ratio(published.avg_delay_s, row.avg_delay_s)),
    )


def comparison_table(results: Results, bitrate_mbps: float) -> Table:
    """The counterpart of Table 9 or 10; at other bitrates the same without a number."""
    number = COMPARISON_TABLES.get(bitrate_mbps)
    title = f"Comparison of the P4 SFU and the user-space SFU at {bitrate_mbps:g} Mbit/s"
    rows = [
        row
        for viewers in sorted({row.viewers for row in results.series(Sfu.USERSPACE, bitrate_mbps)})
        if (row := _comparison_row(results, bitrate_mbps, viewers)) is not None
    ]
    return Table(
        f"table-{number:02d}" if number else f"table-comparison-{bitrate_mbps:g}mbps",
        f"Table {number}: {title}" if number else title,
        (("", 1), ("ours", 4), ("thesis", 3)),
        (
            "viewers",
            "P4, recirculation, avg delay, s",
            "P4, replication, avg delay, s",
            "user space, avg delay, s",
            "P4 recirculation faster, %",
            "P4 avg delay, s",
            "user space avg delay, s",
            "P4 faster, %",
        ),
        tuple(rows),
        why_comparison(results, bitrate_mbps),
    )


def _comparison_row(results: Results, bitrate_mbps: float, viewers: int) -> tuple[str, ...] | None:
    ours = [
        next(
            (
                row.avg_delay_s
                for row in results.series(sfu, bitrate_mbps)
                if row.viewers == viewers
            ),
            None,
        )
        for sfu in (Sfu.P4_RECIRCULATION, Sfu.P4_REPLICATION, Sfu.USERSPACE)
    ]
    if ours[0] is None:
        return None
    published = [
        row.avg_delay_s if row else None
        for row in (
            results.published.summary(sfu, bitrate_mbps, viewers)
            for sfu in (Sfu.P4_RECIRCULATION, Sfu.USERSPACE)
        )
    ]
    return (
        str(viewers),
        *(seconds(value) for value in ours),
        percent(faster_pct(ours[0], ours[2])),
        *(seconds(value) for value in published),
        percent(faster_pct(published[0], published[1])),
    )


def faster_pct(p4_s: float | None, userspace_s: float | None) -> float | None:
    """The thesis' "P4-based faster (%)": the share of the user-space delay that is saved."""
    if p4_s is None or not userspace_s:
        return None
    return (1 - p4_s / userspace_s) * 100


def overview(results: Results) -> list[Sequence[str]]:
    """Header and rows of the short table that ends a study on the terminal."""
    header = (
        "sfu",
        "Mbit/s",
        "viewers",
        "avg delay ms",
        "max ms",
        "lost in",
        "copies missing",
        "thesis avg ms",
        "thesis / ours",
    )
    lines: list[Sequence[str]] = [header]
    for row in results.summaries:
        published = results.published.summary(row.sfu, row.bitrate_mbps, row.viewers)
        published_s = published.avg_delay_s if published else None
        lines.append(
            (
                row.sfu.value,
                f"{row.bitrate_mbps:g}",
                str(row.viewers),
                milliseconds(row.avg_delay_s),
                milliseconds(row.max_delay_s),
                few(row.avg_packets_lost_in),
                few(row.avg_copies_missing),
                milliseconds(published_s),
                times(ratio(published_s, row.avg_delay_s)),
            )
        )
    return lines


def milliseconds(value: float | None) -> str:
    """A delay in milliseconds."""
    return "" if value is None else f"{value * 1000:.3f}"
