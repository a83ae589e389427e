"""Detects whether other processes used the processors of a trial.

If they did, the trial is void and is done again.

The kernel reports the processor time of other processes thread by thread, in nanoseconds, and the
time that a virtual machine's host took (steal) in ticks. Processes that start and end within a
trial are not seen.
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from lab.process import cpu_ns_of_threads, stat_of
from lab.sites import LOAD_CPU, SFU_CPU

SHARE_MAX = 0.02
"""The processor time that others may use on a trial's processors in all, as a share of the trial's
duration."""
TICKS_MIN = 2
"""If the host stole fewer ticks than this, they are ignored, because a single tick may be a
rounding error."""
STEPS_MAX = 3
"""How often a step that other processes disturb is measured at most."""
Measured = TypeVar("Measured")
_PROCESSOR, _PARENT = 36, 1
"""Indices into the words that `stat_of` returns."""


@dataclass(frozen=True, slots=True)
class Noise:
    others_s: float = 0.0
    stolen_s: float = 0.0

    def spoils(self, seconds: float) -> bool:
        """Whether this noise makes a trial of this duration void."""
        tick_s = 1.0 / os.sysconf("SC_CLK_TCK")
        is_stolen = self.stolen_s >= TICKS_MIN * tick_s and self.stolen_s > SHARE_MAX * seconds
        return is_stolen or self.others_s > SHARE_MAX * seconds


class Listener:
    """Watches the processors from its creation on; `noise` returns what others used since then."""

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
        """The processor time of other processes on these processors so far, in ns by process id."""
        found: dict[int, tuple[int, int]] = {}
        for place in Path("/proc").iterdir():
            if not place.name.isdecimal():
                continue
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                words = stat_of(int(place.name))
                found[int(place.name)] = (int(words[_PARENT]), int(words[_PROCESSOR]))
        return {
            pid: sum(cpu_ns_of_threads(pid))
            for pid, (_, cpu) in found.items()
            if cpu in self._cpus and not self._is_ours(pid, found)
        }

    def _is_ours(self, pid: int, found: dict[int, tuple[int, int]]) -> bool:
        """Whether a process is the lab, its descendant, or a kernel thread: these serve the lab."""
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


def undisturbed(step: Callable[[], Measured], seconds: float) -> Measured:
    """Measures a step of this duration, and measures it again if other processes disturbed it."""
    for _ in range(STEPS_MAX):
        listener = Listener()
        found = step()
        if not listener.noise().spoils(seconds):
            break
    return found
