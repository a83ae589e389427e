"""A forwarder is an SFU (row) in a variant (engine, port, wait) with one stream to viewers."""

import contextlib
import math
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.process import InTurn, cpu_ns_of_threads, stat_of
from lab.rows import ROWS, in_kernel
from lab.rows.p4 import ConferenceRow
from lab.rows.row import Row, Variant, told_of
from lab.sites import OnePort, Participant, Stream
from lab.switch import REPLICATION_PROGRAM

RAW = "raw"
"""The value of `Forwarder.row` when nothing forwards: one processor only pushes frames.

The rate of these frames is the upper limit for all forwarders.
"""
PRIORITY = "p4_priority"
SFU_PROGRAMS = ("p4_replication", "p4_recirculation")
AUDIO_UDP_PORT = 5006
"""The UDP port of the second stream, which only `P4Priority` has."""


class P4Priority(ConferenceRow):
    """The replication program with a second, urgent stream. Only the priority benchmark uses it."""

    name = PRIORITY
    label = "P4, priorities"
    source = "Reprise"
    program = Path(__file__).with_name("sfu_priority.p4")
    options = ("--include", str(REPLICATION_PROGRAM.parent))
    has_stream_ports = True


@dataclass(frozen=True, slots=True)
class Forwarder:
    """The columns that identify a line of fanout.csv.

    `engine` is empty if the SFU has only one engine.
    """

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
        """Whether the kernel alone forwards, so that no process sees the packets."""
        return self.port == in_kernel.PORT

    @property
    def kind(self) -> type[Row]:
        return P4Priority if self.row == PRIORITY else ROWS[self.row]


KERNEL = Forwarder("p4_replication", "kernel", in_kernel.PORT, in_kernel.SHARED)
RELAY = Forwarder("xdp_relay", "", in_kernel.PORT, in_kernel.SHARED)
"""The hand-written XDP program that the kernel engine is compared with."""
NATIVE = Forwarder("p4_replication", "native", "afxdp", "spin")
TICKS_MIN = 100
"""With this many timer ticks, the kernel's share of them is accurate to a few percent."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """Timer ticks that found processes in user code (`user`) or in the kernel (`system`)."""

    user: int = 0
    system: int = 0

    def since(self, before: "Ticks") -> "Ticks":
        return Ticks(self.user - before.user, self.system - before.system)

    @property
    def kernel_share(self) -> float:
        """The kernel's share of the ticks; NaN if there are fewer than `TICKS_MIN`."""
        n_ticks = self.user + self.system
        return self.system / n_ticks if n_ticks >= TICKS_MIN else math.nan


def ticks_of(pids: Iterable[int]) -> Ticks:
    """Returns the ticks of processes since they started; leaves out processes that have ended."""
    user, system = 0, 0
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            words = stat_of(pid)
            user, system = user + int(words[11]), system + int(words[12])
    return Ticks(user, system)


@dataclass(frozen=True, slots=True)
class Running(InTurn):
    pids: tuple[int, ...]
    has_metrics: bool = False
    """Whether `lab.counters` can read the forwarder's metrics."""

    def cpu_s(self) -> float:
        return sum(sum(cpu_ns_of_threads(pid)) for pid in self.pids) / 1e9

    def ticks(self) -> "Ticks":
        """Returns the timer ticks of the forwarder's processes since they started."""
        return ticks_of(self.pids)


def forwarders_of(row: str, variants: Iterable[Variant]) -> list[Forwarder]:
    """The forwarders of a row in these variants; none if this machine lacks what the row needs."""
    found = [Forwarder(row, one.engine, one.port, one.wait) for one in variants]
    return found if found and there_is(row) else []


def there_is(row: str) -> bool:
    """Whether this machine has everything that a row needs."""
    return row == RAW or not ROWS[row].lacks()


def stream_of(site: OnePort) -> Stream:
    """The only stream, or the first of two. Participant 1 sends it."""
    return Stream(1, site.participant(1))


def audio_of(site: OnePort) -> Stream:
    return Stream(2, site.participant(1), AUDIO_UDP_PORT)


@contextlib.contextmanager
def running(forwarder: Forwarder, n_viewers: int) -> Iterator[tuple[OnePort, Running]]:
    """Runs the forwarder in namespaces of its own (a site) with one stream to `n_viewers` viewers.

    The viewers are the participants from 2 on. `P4Priority` has a second stream, whose viewers are
    the `n_viewers` participants after these.
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
