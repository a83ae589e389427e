"""Whether others used the processors of a trial: then it is void, and done again.

What other processes ran on them is told by the kernel, thread by thread, in nanoseconds; what the
host took (steal) in ticks. Processes that began and ended within a trial are not seen.
"""

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.process import cpu_ns_of_threads
from lab.sites import LOAD_CPU, SFU_CPU

SHARE_MAX = 0.02
"""Of a trial's time on both processors together."""
TICKS_MIN = 2
"""Of stolen time: one may be a rounding."""
_PROCESSOR, _PARENT = 36, 1
"""Places in /proc/PID/stat behind the command's name."""


@dataclass(frozen=True, slots=True)
class Noise:
    others_s: float = 0.0
    stolen_s: float = 0.0

    def spoils(self, seconds: float) -> bool:
        """Whether a trial that long is void."""
        tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        is_stolen = self.stolen_s >= TICKS_MIN * tick_s and self.stolen_s > SHARE_MAX * seconds
        return is_stolen or self.others_s > SHARE_MAX * seconds


class Listener:
    """Begins with a trial; `noise` tells what came beside it."""

    def __init__(self, cpus: Sequence[int] = (SFU_CPU, LOAD_CPU)) -> None:
        self._cpus = frozenset(cpus)
        self._own = os.getpid()
        self._used = self._others()
        self._stolen = self._ticks()

    def noise(self) -> Noise:
        used = self._others()
        ran_ns = sum(used[pid] - before for pid, before in self._used.items() if pid in used)
        ticks = self._ticks() - self._stolen
        return Noise(max(0, ran_ns) / 1e9, ticks / os.sysconf("SC_CLK_TCK"))

    def _others(self) -> dict[int, int]:
        """Processor time of every process on these processors that is none of the lab's."""
        found: dict[int, tuple[int, int]] = {}
        for place in Path("/proc").iterdir():
            if not place.name.isdecimal():
                continue
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                words = (place / "stat").read_text().rpartition(")")[2].split()
                found[int(place.name)] = (int(words[_PARENT]), int(words[_PROCESSOR]))
        return {
            pid: sum(cpu_ns_of_threads(pid))
            for pid, (_, cpu) in found.items()
            if cpu in self._cpus and not self._is_ours(pid, found)
        }

    def _is_ours(self, pid: int, found: dict[int, tuple[int, int]]) -> bool:
        """The lab, what it started, and the kernel's own threads, which work for the load."""
        kernel = 2
        while pid in found:
            if pid in (self._own, kernel):
                return True
            pid = found[pid][0]
        return False

    def _ticks(self) -> int:
        total = 0
        for line in Path("/proc/stat").read_text().splitlines():
            name, *ticks = line.split()
            if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in self._cpus:
                total += int(ticks[7])
        return total
