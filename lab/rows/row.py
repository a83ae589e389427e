"""A row of a study: an SFU on which a site's participants can be put."""

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
"""Of a process that begins, or does what it is told."""


class RowError(ChildError):
    """A row raised something that it does not promise to raise."""


@contextmanager
def told_of(row: str, log: Path | None = None) -> Iterator[None]:
    """Whatever a row's own code raises becomes an error of the row; its trace is in its log."""
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
    """How a row is run; a part is empty where there is nothing to choose."""

    engine: str = ""
    """`interpreter`, `native` or `kernel`."""
    port: str = ""
    """How it reaches the network: `afpacket`, `afxdp`, `udp`, `xdp` ..."""
    wait: str = ""
    """`spin` or `sleep`; in the kernel `thread` or `shared` (lab.rows.in_kernel)."""

    def __str__(self) -> str:
        return " ".join(part for part in (self.engine, self.port, self.wait) if part)


class Row(ABC):
    """An SFU on a site: `start`, `subscribe` for each stream, `stop`. A context manager.

    It runs in `site.sfu`, on processor `SFU_CPU`; what it writes goes into `folder`.
    """

    name: ClassVar[str]
    """As in `runs.csv`."""
    label: ClassVar[str]
    """What people call it, in figures and tables."""
    source: ClassVar[str]
    """Where it is from."""
    variants: ClassVar[tuple[Variant, ...]] = (Variant(),)
    """How it can be run, the usual way first."""
    topologies: ClassVar[tuple[str, ...]] = ("one_port",)
    """Names of `lab.sites.SITES`, the usual one first."""
    readdresses: ClassVar[bool] = True
    """Whether a copy is sent to its viewer's address; else the port it comes out of says whose."""
    packages: ClassVar[str] = ""
    """What `scripts/install-packages` is told to install for it."""
    is_optional: ClassVar[bool] = False
    """Whether a study is whole without it, on a machine that lacks something for it."""
    look: ClassVar[tuple[str, str]] = ("#000000", "d")
    """Its colour and its marker, the same in every figure."""
    rank: ClassVar[int] = 100
    """Its place in lists and in turns, the smallest first."""
    fanout: ClassVar[tuple[Variant, ...]] = ()
    """The variants in which the benchmark of fan-out has it without being told to."""
    overload: ClassVar[tuple[Variant, ...]] = ()
    """The variants that the benchmark of overload has."""
    takes_turns: ClassVar[bool] = True
    """Whether it is compared to a third digit: in fan-out it takes turns with its like."""
    is_p4: ClassVar[bool] = False
    """Whether it must lose nothing where the published SFUs lost nothing."""

    def __init__(self, site: Site, variant: Variant, folder: Path) -> None:
        self.site = site
        self.variant = variant
        self.folder = folder

    @classmethod
    def lacks(cls) -> str:
        """The requirements that this machine lacks, with the next step; empty if none."""
        return ""

    @classmethod
    def lacks_program(cls, *names: str) -> str:
        """The first of these programs that is not installed, with the next step."""
        missing = next((name for name in names if shutil.which(name) is None), "")
        return missing and f"{missing}: run scripts/install-packages {cls.packages}"

    @abstractmethod
    def start(self) -> None:
        """Starts it; when it returns, streams can be subscribed to. Raises `ChildError`."""

    @abstractmethod
    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        """When it returns, exactly `viewers` get the stream."""

    def subscribe_all(self, subscriptions: Sequence[tuple[Stream, Sequence[Participant]]]) -> None:
        """`subscribe` for each; a row that can do them at once does."""
        for stream, viewers in subscriptions:
            self.subscribe(stream, viewers)

    @abstractmethod
    def stop(self) -> None:
        """Ends it; harmless when repeated, and when it was never started."""

    @property
    @abstractmethod
    def pids(self) -> tuple[int, ...]:
        """Its processes that forward."""

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
        """Starts the process, and waits for a line of its log that begins with `ready`, if any."""
        self._child = self.site.sfu.start(on_cpus(self.cpus, argv), self.folder / log)
        if ready:
            self._child.wait_for_line(ready, TIMEOUT_S)

    @property
    def child(self) -> Child:
        """The process; `ChildError` before there is one."""
        if self._child is None:
            raise ChildError(f"{self.name} was not started")
        return self._child

    def tell(self, line: str) -> None:
        """Says a line, the Nth, to which the process answers `done N`."""
        self.child.tell(line)
        self._n_told += 1
        self.child.wait_for_line(f"done {self._n_told}", TIMEOUT_S)

    def stop(self) -> None:
        if self._child is not None:
            self._child.stop()

    @property
    def pids(self) -> tuple[int, ...]:
        return () if self._child is None else (self._child.pid,)
