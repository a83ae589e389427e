"""Replaces files atomically, and locks folders for one process at a time."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.process import deaf_to_signals

_PARTIAL = ".partial"


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes a temporary file in the same folder and renames it to `path`."""
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + _PARTIAL)
    with deaf_to_signals():
        try:
            with partial.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            partial.rename(path)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def alone(place: Path) -> Iterator[bool]:
    """Locks a folder until the `with` block or the process ends.

    Yields False if another process has locked the folder.
    """
    descriptor = os.open(place, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
