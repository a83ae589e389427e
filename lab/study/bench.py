"""The network of a study: a presenter, viewers, the SFU's link and what watches it."""

import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.addresses import PRESENTER, SFU_IP, SFU_MAC, SFU_UDP_PORT, SUBNET_PREFIX_LEN, ip_of, mac_of
from lab.netns import HOST_INTERFACE, SFU_LINK_AT_BRIDGE, Star
from lab.process import Child, ChildError, real_time_prefix
from lab.study.definitions import N_HOSTS_DEFAULT
from lab.traffic import READY, Burst

POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Station:
    """A viewer in the network."""

    number: int
    ip: str
    mac: str


class Bench:
    """A star with `n_viewers` viewers; a context manager.

    Each viewer is a host of its own as long as there are hosts; the last host is the sink that has
    the addresses of all further ones.
    """

    def __init__(
        self,
        n_viewers: int,
        logs: Path,
        *,
        n_hosts: int = N_HOSTS_DEFAULT,
        star_type: type[Star] = Star,
    ) -> None:
        if n_hosts < 2:
            raise ValueError(f"a study needs 2 hosts or more, not {n_hosts}")
        self.star = star_type(min(n_viewers + 1, n_hosts))
        self.logs = logs
        self._n_hosts = min(n_viewers + 1, n_hosts)
        self._n_viewers = n_viewers
        self._stack = ExitStack()

    def stations(self, n: int) -> list[Station]:
        """The first `n` viewers."""
        if not 1 <= n <= self._n_viewers:
            raise ValueError(f"the bench has viewers 1 to {self._n_viewers}, not {n}")
        first = PRESENTER + 1
        return [
            Station(number, ip_of(number), mac_of(min(number, self._n_hosts)))
            for number in range(first, first + n)
        ]

    def __enter__(self) -> "Bench":
        with self._stack as stack:
            stack.enter_context(self.star)
            self._configure()
            self._sink = stack.enter_context(self._start_sink())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self) -> None:
        """Raises `ChildError` if what the bench runs has ended."""
        if self._sink.exit_code is not None:
            raise self._sink.fail(f"exit code {self._sink.exit_code} during the study")

    def _configure(self) -> None:
        # The presenter need not ask for the SFU: the first packet would be late by the answer.
        presenter = self.star.host(PRESENTER)
        presenter.run(
            ["ip", "neighbour", "replace", SFU_IP, "lladdr", SFU_MAC, "dev", HOST_INTERFACE]
        )
        sink = self.star.host(self._n_hosts)
        for number in range(self._n_hosts + 1, self._n_viewers + 2):
            address = f"{ip_of(number)}/{SUBNET_PREFIX_LEN}"
            sink.run(["ip", "address", "add", address, "dev", HOST_INTERFACE])

    def _start_sink(self) -> Child:
        paths = [str(self.star.host(n).path) for n in range(PRESENTER + 1, self._n_hosts + 1)]
        argv = [sys.executable, "-m", "lab.study.sink", str(SFU_UDP_PORT), *paths]
        sink = Child(argv, self.logs / "sink.log")
        try:
            sink.wait_for_line(READY, 10.0)
        except BaseException:
            sink.stop()
            raise
        return sink


def start_paced_sender(bench: Bench, burst: Burst) -> Child:
    """Starts `burst` at the presenter; the child ends with exit code 0 when all is sent.

    The first and last packet make the true bitrate: neither may wait for a processor.
    """
    argv = [*real_time_prefix(), sys.executable, "-m", "lab.traffic", "send"]
    argv.append(json.dumps(asdict(burst)))
    return bench.star.host(PRESENTER).start(argv, bench.logs / "sender.log")


def frames_from_sfu(watcher: Child) -> int:
    """Frames that the bridge has received from the SFU; `watcher` is a process in its namespace."""
    for line in Path(f"/proc/{watcher.pid}/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() == SFU_LINK_AT_BRIDGE:
            return int(counters.split()[1])
    raise ChildError(f"{watcher.name} sees no interface {SFU_LINK_AT_BRIDGE}")


def wait_until_served(watcher: Child, *, n_expected: int, quiet_s: float, timeout_s: float) -> None:
    """Returns once the SFU has sent `n_expected` frames in all, or nothing for `quiet_s`."""
    started_s = time.monotonic()
    last_s, n_last = started_s, frames_from_sfu(watcher)
    while n_last < n_expected and time.monotonic() - last_s < quiet_s:
        if time.monotonic() - started_s > timeout_s:
            raise watcher.fail(f"the SFU was still sending {timeout_s} s after the burst")
        time.sleep(POLL_S)
        if (n := frames_from_sfu(watcher)) != n_last:
            last_s, n_last = time.monotonic(), n


def cpu_s(pid: int, ticks_per_s: int) -> float:
    """Processor time of a process so far, in user and kernel space (proc(5), /proc/pid/stat)."""
    after_name = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after_name[11]) + int(after_name[12])) / ticks_per_s
