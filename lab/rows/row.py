"""A row of a study: an SFU on which a site's participants can be put."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from lab.sites import Participant, Site, Stream


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

    def __init__(self, site: Site, variant: Variant, folder: Path) -> None:
        self.site = site
        self.variant = variant
        self.folder = folder

    @classmethod
    def lacks(cls) -> str:
        """The requirements that this machine lacks, with the next step; empty if none."""
        return ""

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
