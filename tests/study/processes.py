"""What processes there are."""

from pathlib import Path


def children(pid: int) -> list[int]:
    found = []
    # Not by glob("*/stat"): it raises ProcessLookupError for a process that ends meanwhile.
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            after_name = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == pid:
            found.append(int(process.name))
    return found


def alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
