"""The hand-written peers, the load and the meter, built by the system's C compiler."""

import os
import shutil
import sysconfig
from collections.abc import Sequence
from pathlib import Path

from lab.process import REPOSITORY, run

SOURCES = REPOSITORY / "lab" / "peers"
BUILT = REPOSITORY / "target" / "peers"
OPTIONS = ["-std=gnu11", "-O3", "-march=native", "-Wall", "-Wextra", "-Werror"]
XDP_RELAY = SOURCES / "xdp_relay"
BPF_OPTIONS = ["-O2", "-g", "-mcpu=v3", "-target", "bpf", "-Wall", "-Wextra", "-Werror"]
LIBBPF = Path("/usr/include/bpf/libbpf.h")
BUILD_TIMEOUT_S = 120.0


def build() -> None:
    """Builds the programs that are older than their sources."""
    headers = list(SOURCES.glob("*.h"))
    for source in sorted(SOURCES.glob("*.c")):
        _build(["cc", *OPTIONS], [source, *headers], BUILT / source.stem)


def xdp_relay_lacks() -> str:
    """What this machine lacks for the relay in XDP, with the next step; empty if nothing."""
    missing = [] if shutil.which("clang") else ["clang"]
    missing += [] if LIBBPF.exists() else ["libbpf"]
    if not missing:
        return ""
    return f"{' and '.join(missing)} (scripts/install-packages clang)"


def build_xdp_relay() -> tuple[Path, Path]:
    """Builds the relay in XDP; its program and what that loads into the kernel."""
    header = XDP_RELAY / "relay.h"
    program, kernel_part = BUILT / "xdp_relay", BUILT / "xdp_relay.bpf.o"
    _build(["cc", *OPTIONS], [XDP_RELAY / "relay.c", header], program, ["-lbpf"])
    # The kernel's headers of this machine's kind, which clang does not look for when it builds BPF.
    include = f"-I/usr/include/{sysconfig.get_config_var('MULTIARCH')}"
    _build(["clang", *BPF_OPTIONS, include, "-c"], [XDP_RELAY / "relay.bpf.c", header], kernel_part)
    return program, kernel_part


def _build(
    compiler: Sequence[str], sources: Sequence[Path], to: Path, libraries: Sequence[str] = ()
) -> None:
    """Compiles the first source, if one of them is newer than what there is."""
    BUILT.mkdir(parents=True, exist_ok=True)
    newest = max(file.stat().st_mtime for file in sources)
    if to.exists() and to.stat().st_mtime >= newest:
        return
    # Whole or not at all, also where two build at once.
    partial = to.with_suffix(f".{os.getpid()}")
    argv = [*compiler, "-o", str(partial), str(sources[0]), *libraries]
    run(argv, timeout_s=BUILD_TIMEOUT_S)
    partial.rename(to)


def program(name: str) -> Path:
    """The path of a built peer."""
    return BUILT / name
