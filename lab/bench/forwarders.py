"""The forwarders of the benchmark: rows in their variants, each with one stream to some viewers."""

import contextlib
import math
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.process import InTurn, cpu_ns_of_threads
from lab.rows import ROWS, in_kernel
from lab.rows.p4 import ConferenceRow
from lab.rows.row import Row, Variant, told_of
from lab.sites import OnePort, Participant, Stream
from lab.switch import REPLICATION_PROGRAM

RAW = "raw"
"""No forwarder: one processor that pushes frames, the limit of all of them."""
PRIORITY = "p4_priority"
SFU_PROGRAMS = ("p4_replication", "p4_recirculation")
AUDIO_UDP_PORT = 5006
"""Where the second stream goes, where there is one."""


class P4Priority(ConferenceRow):
    """The replication program with a second, urgent stream: not in the table of fan-out."""

    name = PRIORITY
    label = "P4, priorities"
    source = "Reprise"
    program = Path(__file__).with_name("sfu_priority.p4")
    options = ("--include", str(REPLICATION_PROGRAM.parent))
    has_stream_ports = True


@dataclass(frozen=True, slots=True)
class Forwarder:
    """One row of fanout.csv; `engine` is empty where there is none to choose."""

    row: str
    engine: str
    port: str
    wait: str

    def __str__(self) -> str:
        return " ".join(part for part in (self.row, self.engine, self.port, self.wait) if part)

    @property
    def variant(self) -> Variant:
        return Variant(self.engine, self.port, self.wait)

    @property
    def is_in_kernel(self) -> bool:
        """Whether no process sees its packets."""
        return self.port == in_kernel.PORT

    @property
    def kind(self) -> type[Row]:
        return P4Priority if self.row == PRIORITY else ROWS[self.row]


KERNEL = Forwarder("p4_replication", "kernel", in_kernel.PORT, in_kernel.SHARED)
RELAY = Forwarder("xdp_relay", "", in_kernel.PORT, in_kernel.SHARED)
"""The kernel engine's peer by hand."""
NATIVE = Forwarder("p4_replication", "native", "afxdp", "spin")
TICKS_MIN = 100
"""That tell the kernel's share to some percent."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """Ticks of processes: in their own code, and in the kernel for them."""

    user: int = 0
    system: int = 0

    def since(self, before: "Ticks") -> "Ticks":
        return Ticks(self.user - before.user, self.system - before.system)

    @property
    def kernel_share(self) -> float:
        """The kernel's; not a number where too few ticks say it."""
        n_ticks = self.user + self.system
        return self.system / n_ticks if n_ticks >= TICKS_MIN else math.nan


def ticks_of(pids: Iterable[int]) -> Ticks:
    """Of processes so far; those that have ended count nothing."""
    user, system = 0, 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            user, system = user + int(words[11]), system + int(words[12])
    return Ticks(user, system)


@dataclass(frozen=True, slots=True)
class Running(InTurn):
    pids: tuple[int, ...]
    has_metrics: bool = False
    """Whether `lab.counters` can ask it."""

    def cpu_s(self) -> float:
        return sum(sum(cpu_ns_of_threads(pid)) for pid in self.pids) / 1e9

    def ticks(self) -> "Ticks":
        """How often the kernel's tick has met it, and where."""
        return ticks_of(self.pids)


def forwarders_of(row: str, variants: Iterable[Variant]) -> list[Forwarder]:
    """A row in these variants; none where this machine lacks something for it."""
    found = [Forwarder(row, one.engine, one.port, one.wait) for one in variants]
    return found if found and there_is(row) else []


def there_is(row: str) -> bool:
    """Whether this machine has the requirements of a row."""
    return row == RAW or not ROWS[row].lacks()


def stream_of(site: OnePort) -> Stream:
    """The one stream, or the first of two: participant 1's."""
    return Stream(1, site.participant(1))


def audio_of(site: OnePort) -> Stream:
    return Stream(2, site.participant(1), AUDIO_UDP_PORT)


@contextlib.contextmanager
def running(forwarder: Forwarder, n_viewers: int) -> Iterator[tuple[OnePort, Running]]:
    """A site with the forwarder on it, set up for so many viewers: participants from 2 on.

    With audio there is a second stream, whose viewers follow the first's.
    """
    has_audio = forwarder.row == PRIORITY
    with (
        tempfile.TemporaryDirectory(prefix="reprise-bench-") as folder,
        OnePort(1 + (2 if has_audio else 1) * n_viewers) as site,
    ):
        if forwarder.row == RAW:
            yield site, Running(())
            return
        with _up(forwarder, site, Path(folder)) as row:
            groups: list[tuple[Stream, list[Participant]]] = [
                (stream_of(site), site.participants(2, n_viewers))
            ]
            if has_audio:
                groups.append((audio_of(site), site.participants(2 + n_viewers, n_viewers)))
            with told_of(forwarder.row):
                row.subscribe_all(groups)
                pids = row.pids
            yield site, Running(pids, has_metrics=isinstance(row, ConferenceRow))


@contextlib.contextmanager
def _up(forwarder: Forwarder, site: OnePort, folder: Path) -> Iterator[Row]:
    with told_of(forwarder.row):
        row = forwarder.kind(site, forwarder.variant, folder)
        row.__enter__()
    try:
        yield row
    finally:
        with told_of(forwarder.row):
            row.stop()
