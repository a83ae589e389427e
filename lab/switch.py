"""Starts and stops `reprise-switch` on the SFU's link."""

import os
from pathlib import Path

from lab.addresses import SFU_PORT
from lab.netns import SFU_INTERFACE, SFU_LINK_AT_BRIDGE, Star
from lab.process import REPOSITORY, Child

RELEASE = Path(os.environ.get("REPRISE_PROGRAMS", REPOSITORY / "target" / "release"))
"""The folder of the programs that `make build` builds.

In `make test` it is the folder of the programs that are built with assertions.
"""
SWITCH = RELEASE / "reprise-switch"
GRPC_ADDRESS = "127.0.0.1:9559"
"""9559 is P4Runtime's port at IANA; the address is the loopback of the SFU's namespace."""
READY_TIMEOUT_S = 120.0
LOSE_NOTHING = ("--max-age-ms", "0")
"""For a switch that must lose nothing although other programs may keep it from the processors: it
drops no frame for its age."""

RECIRCULATION_PROGRAM = REPOSITORY / "p4" / "sfu_recirculation.p4"
MULTICAST_ONE_STREAM_PROGRAM = REPOSITORY / "p4" / "sfu_multicast_one_stream.p4"
MULTICAST_TWO_STREAMS_PROGRAM = REPOSITORY / "p4" / "sfu_multicast_two_streams.p4"
REPLICATION_PROGRAM = REPOSITORY / "p4" / "sfu.p4"


class MissingBuildError(RuntimeError):
    """A program of the project is not built."""


def require_build(*binaries: Path) -> None:
    """Raises `MissingBuildError` unless all `binaries` exist."""
    for binary in binaries:
        if not binary.exists():
            raise MissingBuildError(f"{binary} does not exist: `make build` builds it")


def start_switch(
    star: Star, log: Path, program: Path | None = None, *, is_in_kernel: bool = False
) -> Child:
    """Starts the switch. When it returns, the switch answers gRPC.

    Without a `program` the switch waits for a controller that sets one. With `is_in_kernel` the
    switch uses the kernel engine and its port uses XDP.
    """
    require_build(SWITCH)
    port = f"{SFU_PORT}@{'afxdp:' if is_in_kernel else ''}{SFU_INTERFACE}"
    argv = [str(SWITCH), "-i", port, "--grpc", GRPC_ADDRESS]
    if is_in_kernel:
        argv += ["--engine", "kernel"]
        # Without GRO the link's other end would accept no redirected frames.
        star.bridge.run(["ethtool", "-K", SFU_LINK_AT_BRIDGE, "gro", "on"])
    switch = star.sfu.start([*argv, str(program)] if program else argv, log)
    try:
        switch.wait_for_line("ready:", READY_TIMEOUT_S)
    except BaseException:
        switch.stop()
        raise
    return switch
