"""Text tables. No I/O."""

from collections.abc import Sequence

from lab.delays import Summary


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with a rule under its header. A column that has only numbers is right-aligned."""
    widths = [max(len(row[idx]) for row in (header, *rows)) for idx in range(len(header))]
    are_numbers = [all(_is_number(row[idx]) for row in rows) for idx in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        aligned = [
            cell.rjust(width) if is_number else cell.ljust(width)
            for cell, width, is_number in zip(cells, widths, are_numbers, strict=True)
        ]
        return "  ".join(aligned).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])


def _is_number(cell: str) -> bool:
    """Whether a cell is a number, perhaps with a unit, or stands for one that is missing."""
    return not cell or cell == "-" or cell.lstrip("+-").startswith(tuple("0123456789"))


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"


DELAY_TITLE = "On the SFU's link; delays from a packet's arrival to its first and last copy, in ms"
DELAY_HEADER = (
    "viewers",
    "packets",
    "copies",
    "lost",
    "doubled",
    "disorder",
    "first avg",
    "first max",
    "last avg",
    "last max",
)


def delay_row(summary: Summary) -> tuple[str, ...]:
    return (
        str(summary.n_viewers),
        str(summary.n_packets_in),
        str(summary.n_copies_out),
        str(summary.n_lost),
        str(summary.n_duplicated),
        str(summary.n_out_of_order),
        milliseconds(summary.first_copy_delay.avg_s),
        milliseconds(summary.first_copy_delay.max_s),
        milliseconds(summary.last_copy_delay.avg_s),
        milliseconds(summary.last_copy_delay.max_s),
    )
