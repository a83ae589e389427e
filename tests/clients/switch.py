"""Runs a `reprise-switch` for one test. Its two ports are UDP sockets that reach each other.

A frame that leaves by one of these ports comes back in on the port that the frame's destination
names. The program `every_entity` then sends the frame to the controller, or to port 1, which does
not exist.
"""

import os
import re
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("REPRISE_PROGRAMS", ROOT / "target/release"))
SWITCH = PROGRAMS / "reprise-switch"
COMPILER = PROGRAMS / "reprise"
PATIENCE_S = 120.0

DEVICE_ID = 1
PORTS = (2, 3)
EVERY_ENTITY = ROOT / "testdata/compiler/ok/every_entity"
"""A program with every kind of entity; its files are `.p4`, `.p4info.txtpb` and `.json`."""
BRIDGE = ROOT / "crates/control/p4runtime-server/tests/fixture/bridge"
"""A program with every match kind; its files are `.p4info.txtpb` and `.json`."""

LOOPBACK = bytes((127, 0, 0, 1))
LOOPBACK_MAC = bytes((2, 0)) + LOOPBACK
"""The Ethernet address that the switch gives to the host `LOOPBACK` behind a UDP port."""
N_HEADER_BYTES = 28


@dataclass(frozen=True)
class Switch:
    grpc: str
    udp: dict[int, int]
    """For each port of the switch: its UDP port on loopback."""

    def frame(self, to: int, kind: int = 0) -> bytes:
        """A frame that leaves by any port as a datagram, and comes back in on the port `to`.

        `every_entity` reads four bytes where IPv4's header begins. The last of these bytes, the low
        byte of the IPv4 length, says which kind of packet it is.
        """
        len_bytes = kind if kind >= N_HEADER_BYTES else kind + 0x100
        udp_len_bytes = len_bytes - 20
        ip = struct.pack("!BBHHHBBH", 0x45, 0, len_bytes, 0, 0, 64, 17, 0) + LOOPBACK + LOOPBACK
        udp = struct.pack("!HHHH", self.udp[to], self.udp[to], udp_len_bytes, 0)
        return LOOPBACK_MAC + LOOPBACK_MAC + b"\x08\x00" + ip + udp + bytes(udp_len_bytes - 8)


@contextmanager
def running(*options: str) -> Iterator[Switch]:
    """Runs a switch with these options during the `with` block. Then it must end by itself."""
    command = [str(SWITCH), "--grpc", "127.0.0.1:0", "--device-id", str(DEVICE_ID)]
    for port in PORTS:
        command += ["-i", f"{port}@udp:127.0.0.1:0"]
    with subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("ready: "):
                break
        ready = said[-1] if said else ""
        grpc = re.search(r"P4Runtime on ([0-9.]+:[0-9]+)", ready)
        udp = re.findall(r"([0-9]+)@udp:127\.0\.0\.1:([0-9]+)", ready)
        assert grpc, f"expected where P4Runtime is served, found {said}"
        try:
            yield Switch(grpc[1], {int(port): int(of) for port, of in udp})
        finally:
            process.terminate()
            code = process.wait(timeout=PATIENCE_S)
        assert code == 0
