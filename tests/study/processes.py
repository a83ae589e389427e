"""Finds processes: children, and programs of the lab."""

import contextlib
import signal
from pathlib import Path


def children(pid: int) -> list[int]:
    found = []
    # Each thread lists the children that it started. Threads and the process may end meanwhile.
    with contextlib.suppress(FileNotFoundError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in (thread / "children").read_text().split()]
    return found


def is_module(pid: int, module: str) -> bool:
    """Whether a process is Python that runs this module."""
    try:
        return module in Path(f"/proc/{pid}/cmdline").read_text().split("\0")[1:3]
    except OSError:
        return False


def is_metering(pid: int) -> bool:
    """Whether a process is a meter that has begun to measure: only then it catches SIGTERM."""
    try:
        is_meter = Path(f"/proc/{pid}/comm").read_text() == "meter\n"
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    caught = int(status.partition("SigCgt:")[2].split()[0], 16)
    return is_meter and caught >> (signal.SIGTERM - 1) & 1 == 1


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
