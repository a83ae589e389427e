"""Reads files for comparisons in tests."""

import csv
from pathlib import Path


def files(place: Path) -> dict[str, bytes]:
    """Returns the contents of all files below a folder, by their paths in the folder."""
    return {
        str(file.relative_to(place)): file.read_bytes()
        for file in sorted(place.rglob("*"))
        if file.is_file()
    }


def csv_rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))
