"""Runs the packet test framework (PTF) on the switch: `python -m tests.clients.ptf.run`.

The switch and the test are in one network namespace, with a veth pair for each port, as is usual
for PTF. The switch is started under BMv2's name. The exit code is PTF's.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from lab.netns import Namespace, Network
from lab.process import Child, dying_with_parent, interrupt_on_termination, run

ROOT = Path(__file__).resolve().parents[3]
SWITCH = Path(os.environ.get("REPRISE_PROGRAMS", ROOT / "target/release")) / "reprise-switch"
HERE = Path(__file__).parent
GRPC_ADDRESS = "127.0.0.1:9559"
DEVICE_ID = 0
CPU_PORT = 510
PORTS = (1, 2, 3, 4)
READY_TIMEOUT_S = 120.0
# How long PTF waits for a packet that must not come. The switch forwards in some microseconds.
NEGATIVE_TIMEOUT_S = 0.1
SUITE_TIMEOUT_S = 600.0


class Cables(Network):
    """A namespace with a veth pair for each port: the switch has vethN, the test ptfN."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Namespace(f"{self.name}-ptf")

    @property
    def namespaces(self) -> tuple[Namespace, ...]:
        return (self.place,)

    def _make(self) -> None:
        self._make_namespaces()
        lines = ["link set lo up"]
        for port in PORTS:
            lines.append(f"link add veth{port} type veth peer name ptf{port}")
            lines += [f"link set {end}{port} up" for end in ("veth", "ptf")]
        run(["ip", "-n", self.place.name, "-batch", "-"], stdin="\n".join(lines) + "\n")


def switch_command(folder: Path) -> list[str]:
    """The command that starts the switch as scripts for BMv2 do."""
    name = folder / "simple_switch_grpc"
    name.symlink_to(SWITCH)
    command = [str(name), "--no-p4", "--device-id", str(DEVICE_ID)]
    for port in PORTS:
        command += ["-i", f"{port}@veth{port}"]
    return [*command, "--", "--grpc-server-addr", GRPC_ADDRESS, "--cpu-port", str(CPU_PORT)]


def ptf_command() -> list[str]:
    """The command that runs the suite, or only those tests that the command line names."""
    command = [sys.executable, str(Path(sys.executable).with_name("ptf"))]
    command += ["--test-dir", str(HERE / "suite"), "--quiet"]
    command += ["--default-negative-timeout", str(NEGATIVE_TIMEOUT_S)]
    command += ["--test-params", f"grpcaddr='{GRPC_ADDRESS}';device_id='{DEVICE_ID}'"]
    # The suite's own modules, and the client in tests/clients/stubs.
    for folder in (HERE, HERE.parent, HERE.parent / "stubs"):
        command += ["--pypath", str(folder)]
    for port in PORTS:
        command += ["-i", f"{port}@ptf{port}"]
    return [*command, *sys.argv[1:]]


def main() -> int:
    interrupt_on_termination()
    with tempfile.TemporaryDirectory() as name, Cables() as cables:
        folder = Path(name)
        log = folder / "switch.log"
        with Child(cables.place.command(switch_command(folder)), log) as switch:
            switch.wait_for_line("Server listening on ", READY_TIMEOUT_S)
            command = dying_with_parent(cables.place.command(ptf_command()))
            # PTF leaves a log and a capture in its working folder.
            ended = subprocess.run(command, cwd=folder, check=False, timeout=SUITE_TIMEOUT_S)
            if switch.exit_code is not None:
                raise switch.fail(f"ended with exit code {switch.exit_code} meanwhile")
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main())
