"""The circumstances of a measurement: command, commit, machine, versions."""

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from lab.controller import REPRISE
from lab.process import REPOSITORY
from lab.switch import SWITCH


def session(command: Sequence[str]) -> dict[str, str]:
    """Facts about this session (one command that measures), as text by name.

    Of the command's file arguments only the names are kept, because paths differ on other machines.
    """
    program, *words = command
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join([program, *(Path(word).name for word in words)]),
        "commit": _commit(),
        "system": platform.platform(),
        "processor": _processor(),
        "processors": str(len(os.sched_getaffinity(0))),
        "memory_gib": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.1f}",
        "load_average": f"{os.getloadavg()[0]:.2f}",
        "python": sys.version.split()[0],
        "scapy": version("scapy"),
        "matplotlib": version("matplotlib"),
        "reprise-switch": _said([str(SWITCH), "--version"]),
        "reprise": _said([str(REPRISE), "--version"]),
        "iproute2": _said(["ip", "-V"]),
    }


def _commit() -> str:
    commit = _said(["git", "rev-parse", "HEAD"])
    return f"{commit}, changed" if _said(["git", "status", "--porcelain", "-uno"]) else commit


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _said(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    except FileNotFoundError:
        return "not there"
    return (done.stdout + done.stderr).strip() if done.returncode == 0 else "unknown"
