"""A hand-written SFU in XDP, `lab/peers/xdp_relay`, with which the kernel engine is compared."""

import shutil
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from lab import peers
from lab.colours import CRIMSON
from lab.rows import in_kernel
from lab.rows.row import ProcessRow
from lab.sites import LOAD_CPU, SFU_IP, Participant, Stream

SOURCES = peers.SOURCES / "xdp_relay"
BPF_OPTIONS = ["-O2", "-g", "-mcpu=v3", "-target", "bpf", "-Wall", "-Wextra", "-Werror"]
LIBBPF = Path("/usr/include/bpf/libbpf.h")


class XdpRelay(ProcessRow):
    name = "xdp_relay"
    label = "XDP relay by hand"
    source = "Reprise"
    variants = in_kernel.VARIANTS
    overload = variants[:1]
    look = (CRIMSON, "8")
    rank = 9
    packages = "clang"
    is_optional = True
    cpus = (LOAD_CPU,)
    """The process only writes groups, so it runs on the load's processor."""
    link_number = 0
    _threads: tuple[int, ...] = ()

    @classmethod
    def lacks(cls) -> str:
        missing = [] if shutil.which("clang") else ["clang"]
        missing += [] if LIBBPF.exists() else ["libbpf"]
        return f"{' and '.join(missing)} (scripts/install-packages clang)" if missing else ""

    def start(self) -> None:
        program, kernel_part = _built()
        link = self.site.links[self.link_number]
        in_kernel.take_redirected(self.site)
        argv = [str(program), str(kernel_part), link.sfu_interface, str(SFU_IP), link.sfu_mac]
        self.launch(argv, "xdp_relay.log", "ready")
        self._threads = in_kernel.threads(self.site, self.variant.wait)

    def subscribe(self, stream: Stream, viewers: Sequence[Participant]) -> None:
        words = [str(stream.sender.ip), str(stream.udp_port)]
        for viewer in viewers:
            words += [str(viewer.ip), str(stream.viewer_udp_port), viewer.mac]
        self.tell(" ".join(words))

    @property
    def is_on_load_cpu(self) -> bool:
        return self.variant.wait == in_kernel.SHARED

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the process and of the kernel's threads, which forward."""
        return (*super().pids, *self._threads)


def _built() -> tuple[Path, Path]:
    """Builds the relay; returns its program and the BPF object that the program loads."""
    header = SOURCES / "relay.h"
    sources = [SOURCES / "relay.c", header]
    program = peers.compiled(["cc", *peers.OPTIONS], sources, "xdp_relay", ["-lbpf"])
    # The headers for this machine's architecture, which clang does not find when it compiles for
    # BPF.
    include = f"-I/usr/include/{sysconfig.get_config_var('MULTIARCH')}"
    sources = [SOURCES / "relay.bpf.c", header]
    clang = ["clang", *BPF_OPTIONS, include, "-c"]
    return program, peers.compiled(clang, sources, "xdp_relay.bpf.o")
