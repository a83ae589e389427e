"""The thesis' numbers of tables and figures, for their counterparts here. Pure."""

from lab.study.definitions import BITRATES_MBPS, Sfu

COMPARISON_TABLES = {0.15: 9, 0.076: 10}
COMPARISON_FIGURES = {0.15: 31, 0.076: 32}
FIRST_SUMMARY_TABLE = 1
FIRST_EXTENDED_TABLE = 11
FIRST_FIGURE = 23


def in_order_of_thesis(first: int, sfu: Sfu, bitrate_mbps: float) -> int | None:
    """The thesis counts by bitrate, the P4 SFU first; None for a bitrate that it does not have."""
    if bitrate_mbps not in BITRATES_MBPS:
        return None
    return first + 2 * BITRATES_MBPS.index(bitrate_mbps) + (not sfu.is_p4)
