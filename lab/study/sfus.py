"""The SFUs under test, started on a bench."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from lab.addresses import PRESENTER, SFU_IP, SFU_MAC, SFU_UDP_PORT, SUBNET_PREFIX_LEN, ip_of
from lab.baselines.scapy_sfu import READY
from lab.conference import GROUP, switch_with_group
from lab.netns import SFU_INTERFACE
from lab.process import Child
from lab.study.bench import Bench, Station
from lab.study.definitions import Sfu
from lab.switch import RECIRCULATION_PROGRAM, REPLICATION_PROGRAM

START_TIMEOUT_S = 30.0


class SfuUnderTest(Protocol):
    """An SFU on a bench; a context manager."""

    def __enter__(self) -> "SfuUnderTest":
        """Starts it."""

    def __exit__(self, *exception: object) -> None:
        """Ends it."""

    def serve(self, viewers: Sequence[Station]) -> None:
        """Makes `viewers` those of the presenter; when it returns, packets are served."""

    @property
    def process(self) -> Child:
        """The process that forwards."""


class P4Sfu:
    """`reprise-switch` with one of the two programs, told its viewers by `reprise`."""

    def __init__(self, bench: Bench, program: Path) -> None:
        self._bench = bench
        self._program = program
        self._served: list[Station] = []
        self._stack = ExitStack()

    def __enter__(self) -> "P4Sfu":
        log = self._bench.logs / "switch.log"
        started = switch_with_group(self._bench.star, self._program, log)
        self._switch, self._controller = self._stack.enter_context(started)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def serve(self, viewers: Sequence[Station]) -> None:
        """Adds and removes viewers; `viewers` are the former ones and more, or fewer of them."""
        for station in reversed(self._served[len(viewers) :]):
            self._controller.remove_viewer(GROUP, station.number)
        for station in viewers[len(self._served) :]:
            self._controller.add_viewer(GROUP, station.number)
        self._served = list(viewers)

    @property
    def process(self) -> Child:
        """The switch."""
        return self._switch


class UserspaceSfu:
    """`lab.baselines.scapy_sfu` on an ordinary host: the link has the SFU's address."""

    def __init__(self, bench: Bench, *, sleep_ms: float = 0.0) -> None:
        self._bench = bench
        self._sleep_ms = sleep_ms
        self._child: Child | None = None

    def __enter__(self) -> "UserspaceSfu":
        address = f"{SFU_IP}/{SUBNET_PREFIX_LEN}"
        self._bench.star.sfu.run(["ip", "address", "add", address, "dev", SFU_INTERFACE])
        return self

    def __exit__(self, *_: object) -> None:
        if self._child is not None:
            self._child.stop()

    def serve(self, viewers: Sequence[Station]) -> None:
        """Starts the script anew: its groups are fixed."""
        if self._child is not None:
            self._child.stop()
        argv = [sys.executable, "-m", "lab.baselines.scapy_sfu", SFU_INTERFACE]
        argv += ["--ip", SFU_IP, "--mac", SFU_MAC, "--udp-port", str(SFU_UDP_PORT)]
        argv += ["--presenter", ip_of(PRESENTER), "--sleep-ms", str(self._sleep_ms)]
        for station in viewers:
            argv += ["--viewer", f"{station.ip}={station.mac}"]
        self._child = self._bench.star.sfu.start(argv, self._bench.logs / "scapy_sfu.log")
        self._child.wait_for_line(READY, START_TIMEOUT_S)

    @property
    def process(self) -> Child:
        """The Python process."""
        if self._child is None:
            raise RuntimeError("the user-space SFU serves nobody yet")
        return self._child


def sfu_on(bench: Bench, sfu: Sfu) -> SfuUnderTest:
    """The SFU `sfu` for `bench`."""
    match sfu:
        case Sfu.P4_RECIRCULATION:
            return P4Sfu(bench, RECIRCULATION_PROGRAM)
        case Sfu.P4_REPLICATION:
            return P4Sfu(bench, REPLICATION_PROGRAM)
        case Sfu.USERSPACE:
            return UserspaceSfu(bench)
