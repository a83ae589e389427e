"""A row of a study: an SFU that can serve a site's participants."""

import shutil
import traceback
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from lab.process import Child, ChildError
from lab.sites import SFU_CPU, Participant, Site, Stream, on_cpus

TIMEOUT_S = 120.0
"""How long a row's process may take to start, or to carry out a command."""


class RowError(ChildError):
    """A row raised an exception other than `ChildError`."""


@contextmanager
def told_of(row: str, log: Path | None = None) -> Iterator[None]:
    """Turns any exception of a row's own code into `RowError`; the traceback goes to error.log."""
    try:
        yield
    except ChildError:
        raise
    except Exception as error:
        said = f"{row}: {type(error).__name__}: {error}"
        if log is not None:
            log.mkdir(parents=True, exist_ok=True)
            (log / "error.log").write_text(traceback.format_exc())
            said += f"; see {log / 'error.log'}"
        raise RowError(said) from error


@dataclass(frozen=True, slots=True)
class Variant:
    """How a row is run. A field is empty if the row offers no choice for it."""

    engine: str = ""
    """`interpreter`, `native` or `kernel`."""
    port: str = ""
    """How the row reaches the network: `afpacket`, `afxdp`, `udp`, `xdp` ..."""
    wait: str = ""
    """`spin` or `sleep`; in the kernel `thread` or `shared` (lab.rows.in_kernel)."""

    def __str__(self) -> str:
        return " ".join(part for part in (self.engine, self.port, self.wait) if part)


class Row(ABC):
    """An SFU on a site (`lab.sites`): call `start`, `subscribe` for each stream, and `stop`.

    A row is a context manager, which starts and stops the SFU. The SFU runs in `site.sfu` on
    processor `SFU_CPU`. Its files go into `folder`.
    """

    name: ClassVar[str]
    """The name in `runs.csv` and in experiments."""
    label: ClassVar[str]
    """The name for people, in figures and tables."""
    source: ClassVar[str]
    """The source of the SFU, such as a paper."""
    variants: ClassVar[tuple[Variant, ...]] = (Variant(),)
    """The variants in which it can be run, the usual one first."""
    topologies: ClassVar[tuple[str, ...]] = ("one_port",)
    """Names of `lab.sites.SITES`, the usual one first."""
    readdresses: ClassVar[bool] = True
    """Whether a copy is sent to its viewer's address. Otherwise the port from which the copy comes
    identifies the viewer."""
    packages: ClassVar[str] = ""
    """The argument of `scripts/install-packages` that installs what the row needs."""
    is_optional: ClassVar[bool] = False
    """Whether a study is complete without this row on a machine that cannot run it."""
    look: ClassVar[tuple[str, str]] = ("#000000", "d")
    """The colour and the marker of the row, the same in every figure."""
    rank: ClassVar[int] = 100
    """The row's place in lists and in a set of trials, the smallest first."""
    fanout: ClassVar[tuple[Variant, ...]] = ()
    """The variants that the fan-out benchmark measures by default."""
    overload: ClassVar[tuple[Variant, ...]] = ()
    """The variants that the overload benchmark measures."""
    takes_turns: ClassVar[bool] = True
    """Whether the fan-out benchmark alternates the row's trials with trials of comparable rows, for
    a precise comparison."""
    is_p4: ClassVar[bool] = False
    """Whether the row must lose nothing under loads at which the published SFUs lost nothing."""

    def __init__(self, site: Site, variant: Variant, folder: Path) -> None:
        self.site = site
        self.variant = variant
        self.folder = folder

    @property
    def is_on_load_cpu(self) -> bool:
        """Whether this SFU forwards on the load generator's processor and so may delay the load."""
        return False

    @classmethod
    def lacks(cls) -> str:
        """What this machine lacks for the row, with the next step; empty if nothing."""
        return ""

    @classmethod
    def lacks_program(cls, *names: str) -> str:
        """The first of these programs that is not installed, with the next step; empty if none."""
        missing = next((name for name in names if shutil.which(name) is None), "")
        return missing and f"{missing}: run scripts/install-packages {cls.packages}"

    @abstractmethod
    def start(self) -> None:
        """Starts the SFU; when it returns, `subscribe` can be called. Raises `ChildError`."""

    @abstractmethod
    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        """Sets a stream's viewers. When it returns, exactly `viewers` get the stream."""

    def subscribe_all(self, subscriptions: Sequence[tuple[Stream, Sequence[Participant]]]) -> None:
        """Calls `subscribe` for each stream.

        A row that can change several streams at once overrides this method.
        """
        for stream, viewers in subscriptions:
            self.subscribe(stream, viewers)

    @abstractmethod
    def stop(self) -> None:
        """Stops the SFU. Harmless when repeated, and when the SFU was never started."""

    @property
    @abstractmethod
    def pids(self) -> tuple[int, ...]:
        """The process ids of the processes that forward."""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class ProcessRow(Row):
    """A row that is one process, which may take lines on its standard input."""

    cpus: tuple[int, ...] = (SFU_CPU,)
    _child: Child | None = None
    _n_told = 0

    def launch(self, argv: list[str], log: str, ready: str = "") -> None:
        """Starts the process.

        If `ready` is not empty, waits for a line of the process' log that begins with it.
        """
        self._child = self.site.sfu.start(on_cpus(self.cpus, argv), self.folder / log)
        if ready:
            self._child.wait_for_line(ready, TIMEOUT_S)

    @property
    def child(self) -> Child:
        """The process; raises `ChildError` if it was not started."""
        if self._child is None:
            raise ChildError(f"{self.name} was not started")
        return self._child

    def tell(self, line: str) -> None:
        """Sends a line to the process and waits for its answer: `done N` to the Nth line."""
        self.child.tell(line)
        self._n_told += 1
        self.child.wait_for_line(f"done {self._n_told}", TIMEOUT_S)

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()

    @property
    def pids(self) -> tuple[int, ...]:
        return () if self._child is None else (self._child.pid,)
