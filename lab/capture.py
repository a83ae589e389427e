"""`python -m lab.capture`: captures the SFU's link at the bridge into a pcap file.

Times are in nanoseconds.

One AF_PACKET socket with a memory-mapped ring sees both directions, with the kernel's time stamps.
The ring is TPACKET_V2, because V3 delays frames by its block timeout. The kernel counts the frames
that the socket lost. `read_capture` refuses a run with such losses, because a frame lost by the
capture would look like a frame lost by the switch.
"""

import argparse
import json
import mmap
import selectors
import socket
import struct
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from lab import pcap
from lab.netns import MTU_MAX_BYTES, SFU_LINK_AT_BRIDGE, Namespace
from lab.process import Child
from lab.traffic import READY, SO_TIMESTAMPNS, until_quiet

SOL_PACKET = 263
PACKET_RX_RING = 5
PACKET_STATISTICS = 6
PACKET_VERSION = 10
TPACKET_V2 = 1
TP_STATUS_USER = 1
ETH_P_ALL = 3
BLOCK_LEN_BYTES = 1 << 16
RING_LEN_BYTES = 64 << 20
SLOT_OVERHEAD_BYTES = 128
"""The most bytes that come before a frame in its slot: the header, the address, alignment."""
STANDARD_MTU_BYTES = 1500

# struct tpacket2_hdr of linux/if_packet.h: status, length, captured length, offset of the
# Ethernet header, offset of the network header, seconds, nanoseconds.
_SLOT_HEADER = struct.Struct("=IIIHHII")


class CaptureError(RuntimeError):
    """The capture is incomplete, so nothing may be concluded from it."""


@dataclass(frozen=True, slots=True)
class Statistics:
    n_captured: int
    n_dropped: int


def start_capture(
    namespace: Namespace,
    file: Path,
    log: Path,
    *,
    mtu_bytes: int = STANDARD_MTU_BYTES,
) -> Child:
    """Starts to capture the SFU's link. When this function returns, every frame is captured.

    `Child.finish` waits until the link is quiet and completes the file.
    """
    argv = [sys.executable, "-m", "lab.capture", SFU_LINK_AT_BRIDGE, str(file)]
    child = namespace.start([*argv, "--mtu", str(mtu_bytes)], log)
    child.wait_for_line(READY, 120.0)
    return child


def read_capture(file: Path) -> list[pcap.Record]:
    """The frames of a finished capture; raises `CaptureError` if any was lost."""
    statistics = Statistics(**json.loads(_statistics_file(file).read_text()))
    if statistics.n_dropped:
        raise CaptureError(f"the capture {file} lost {statistics.n_dropped} frames: run refused")
    records = list(pcap.records(file.read_bytes()))
    if len(records) != statistics.n_captured:
        raise CaptureError(
            f"the capture {file} has {len(records)} frames, {statistics.n_captured} were captured"
        )
    return records


def _statistics_file(file: Path) -> Path:
    return file.with_suffix(".statistics.json")


class _Ring:
    """A receive ring: the kernel fills slots with frames; this class reads and frees the slots."""

    def __init__(self, interface: str, mtu_bytes: int) -> None:
        self.slot_len_bytes = 2048
        while self.slot_len_bytes < mtu_bytes + SLOT_OVERHEAD_BYTES:
            self.slot_len_bytes *= 2
        self.n_slots = RING_LEN_BYTES // self.slot_len_bytes
        # Protocol 0 at first, so that nothing is received before the ring exists.
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.setsockopt(SOL_PACKET, PACKET_VERSION, TPACKET_V2)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        request = struct.pack(
            "=IIII",
            BLOCK_LEN_BYTES,
            RING_LEN_BYTES // BLOCK_LEN_BYTES,
            self.slot_len_bytes,
            self.n_slots,
        )
        self.socket.setsockopt(SOL_PACKET, PACKET_RX_RING, request)
        self.memory = mmap.mmap(self.socket.fileno(), RING_LEN_BYTES)
        self.socket.bind((interface, ETH_P_ALL))
        self._slot = 0
        self.n_written = 0

    def write_all_to(self, file: BinaryIO) -> None:
        memory = self.memory
        while True:
            at = self._slot * self.slot_len_bytes
            status, length, captured, offset, _, time_s, below_s_ns = _SLOT_HEADER.unpack_from(
                memory, at
            )
            if not status & TP_STATUS_USER:
                return
            file.write(pcap.record_header(time_s, below_s_ns, captured, length))
            file.write(memory[at + offset : at + offset + captured])
            struct.pack_into("=I", memory, at, 0)
            self._slot = (self._slot + 1) % self.n_slots
            self.n_written += 1

    def statistics(self) -> Statistics:
        data = self.socket.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8)
        n_seen, n_dropped = struct.unpack("=II", data)
        # The kernel counts dropped frames among the seen ones.
        return Statistics(n_seen - n_dropped, n_dropped)


def _capture(interface: str, file: Path, mtu_bytes: int) -> None:
    ring = _Ring(interface, mtu_bytes)
    partial = file.with_suffix(".partial")
    with partial.open("wb") as output, selectors.DefaultSelector() as selector:
        output.write(pcap.file_header(ring.slot_len_bytes))
        selector.register(ring.socket, selectors.EVENT_READ)
        for _ in until_quiet(selector, f"{READY} capturing {interface}"):
            ring.write_all_to(output)
        statistics = ring.statistics()
        ring.write_all_to(output)
    # The file may have more frames than the kernel counted, because frames can come after the
    # count.
    if statistics.n_captured > ring.n_written:
        raise CaptureError(f"kernel counted {statistics.n_captured}, written {ring.n_written}")
    whole = Statistics(ring.n_written, statistics.n_dropped)
    _statistics_file(file).write_text(json.dumps(asdict(whole)) + "\n")
    partial.rename(file)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.capture", description=__doc__)
    parser.add_argument("interface")
    parser.add_argument("file", type=Path)
    parser.add_argument("--mtu", type=int, default=STANDARD_MTU_BYTES, help=f"to {MTU_MAX_BYTES}")
    arguments = parser.parse_args()
    _capture(arguments.interface, arguments.file, arguments.mtu)


if __name__ == "__main__":
    main()
