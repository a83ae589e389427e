"""CSV as text. Pure."""

import csv
import io
from collections.abc import Sequence


def text_of(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()
