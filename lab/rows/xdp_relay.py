"""An SFU in XDP by hand, `lab/peers/xdp_relay`: the peer of the kernel engine."""

from collections.abc import Sequence

from lab import peers
from lab.process import Child
from lab.rows import in_kernel
from lab.rows.row import Row
from lab.sites import LOAD_CPU, SFU_IP, Participant, Stream, on_cpu
from lab.switch import READY_TIMEOUT_S

SUBSCRIBE_TIMEOUT_S = 120.0


class XdpRelay(Row):
    """The relay, on one link of the site."""

    name = "xdp_relay"
    label = "XDP relay by hand"
    source = "Reprise"
    variants = in_kernel.VARIANTS
    packages = "clang"
    is_optional = True
    link_number = 0
    _child: Child | None = None
    _threads: tuple[int, ...] = ()
    _n_told = 0

    @classmethod
    def lacks(cls) -> str:
        """The compiler for BPF, or the library."""
        return peers.xdp_relay_lacks()

    def start(self) -> None:
        """Starts it, without groups."""
        program, kernel_part = peers.build_xdp_relay()
        link = self.site.links[self.link_number]
        in_kernel.take_redirected(self.site)
        argv = [str(program), str(kernel_part), link.sfu_interface, str(SFU_IP), link.sfu_mac]
        self._child = self.site.sfu.start(on_cpu(LOAD_CPU, argv), self.folder / "xdp_relay.log")
        self._child.wait_for_line("ready", READY_TIMEOUT_S)
        self._threads = in_kernel.threads(self.site, self.variant.wait)

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        """Tells it the whole group."""
        if self._child is None:
            return
        words = [str(stream.sender.ip), str(stream.udp_port)]
        for viewer in viewers:
            words += [str(viewer.ip), str(stream.viewer_udp_port), viewer.mac]
        self._n_told += 1
        self._child.tell(" ".join(words))
        self._child.wait_for_line(f"done {self._n_told}", SUBSCRIBE_TIMEOUT_S)

    def stop(self) -> None:
        """Ends it; the last line of its log has its counters."""
        if self._child is not None:
            self._child.stop()

    @property
    def pids(self) -> tuple[int, ...]:
        """What forwards: the kernel's threads. The process only writes groups."""
        own = () if self._child is None else (self._child.pid,)
        return (*own, *self._threads)
