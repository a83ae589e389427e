"""What processes there are."""

import contextlib
from pathlib import Path


def children(pid: int) -> list[int]:
    found = []
    # Each thread has those that it started itself. Threads and the process may end meanwhile.
    with contextlib.suppress(FileNotFoundError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                found += [int(child) for child in (thread / "children").read_text().split()]
    return found


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
