"""Sends and receives the lab's test packets; run inside namespaces as `python -m lab.traffic`.

Payloads are like the thesis' (section 3.2): name of the sending host, sequence number, padding.
"""

import argparse
import hashlib
import json
import re
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lab.addresses import SFU_IP, SFU_UDP_PORT, ip_of
from lab.csvs import csv_text, rows_of
from lab.files import write_whole
from lab.frames import HEADERS_LEN_BYTES
from lab.netns import HOST_INTERFACE, Namespace, enter
from lab.pcap import NS_PER_S
from lab.process import Child

FRAME_LEN_BYTES = 1400
"""The thesis' packets, counted as Wireshark counts them: with Ethernet header, without FCS."""
SEQUENCE_DIGITS = 6
PADDING = b"x"
SPIN_NS = 200_000
"""For this long before a deadline the sender spins, because a sleep ends late by tens of us."""
QUIET_S = 0.3
"""After standard input has ended, a receiver or capture ends when nothing arrived for this long."""
READY = "ready:"
RECEIVE_BUFFER_BYTES = 8 << 20
SO_TIMESTAMPNS = 35
SO_RCVBUFFORCE = 33
MTU_BUFFER_BYTES = 16384


def payload(host: int, sequence: int, frame_len_bytes: int) -> bytes:
    """The payload `h<host><sequence>`, padded to make a frame of `frame_len_bytes`."""
    start = f"h{host}{sequence:0{SEQUENCE_DIGITS}d}".encode()
    padding = frame_len_bytes - HEADERS_LEN_BYTES - len(start)
    if padding < 0:
        raise ValueError(f"a frame of {frame_len_bytes} bytes has no room for {start!r}")
    return start + PADDING * padding


def sequence_of(data: bytes) -> int | None:
    """The sequence number in a payload; None if the payload is not the lab's."""
    found = re.match(rb"h\d+?(\d{%d})(?!\d)" % SEQUENCE_DIGITS, data)
    return int(found[1]) if found else None


def digest(data: bytes) -> str:
    """A short hash of a payload, to compare sent payloads with received ones."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Burst:
    """The packets that a sender has to send. The bit rate counts whole frames without FCS."""

    host: int
    n_packets: int
    rate_bps: float
    frame_len_bytes: int = FRAME_LEN_BYTES
    sfu_ip: str = SFU_IP
    udp_port: int = SFU_UDP_PORT
    first_sequence: int = 1

    @property
    def interval_ns(self) -> float:
        return self.frame_len_bytes * 8 * NS_PER_S / self.rate_bps

    @property
    def duration_s(self) -> float:
        """Time from the first packet to the last."""
        return self.interval_ns * (self.n_packets - 1) / NS_PER_S

    def payloads(self) -> list[bytes]:
        sequences = range(self.first_sequence, self.first_sequence + self.n_packets)
        return [payload(self.host, sequence, self.frame_len_bytes) for sequence in sequences]


@dataclass(frozen=True, slots=True)
class Received:
    """One datagram that a viewer's ordinary UDP socket delivered."""

    host: int
    udp_port: int
    sequence: int | None
    received_ns: int
    payload_digest: str
    src_ip: str
    src_port: int


# Functions that the lab calls.


def start_sender(namespace: Namespace, burst: Burst, log: Path) -> Child:
    """Starts to send `burst` inside `namespace`. The child ends with status 0 when all is sent."""
    return namespace.start([*_THIS, "send", json.dumps(asdict(burst))], log)


def start_receivers(
    sockets: Sequence[tuple[int, Namespace, int]], received: Path, log: Path
) -> Child:
    """Starts one process with an ordinary UDP socket for each (host, namespace, UDP port).

    When it returns, every socket is open. `Child.finish` makes the process write the file
    `received`.
    """
    arguments = [f"{host}:{udp_port}:{namespace.path}" for host, namespace, udp_port in sockets]
    child = Child([*_THIS, "receive", "--to", str(received), *arguments], log)
    child.wait_for_line(READY, 120.0)
    return child


def inject(namespace: Namespace, frame: bytes) -> None:
    namespace.run([*_THIS, "inject", frame.hex()])


def read_received(path: Path) -> list[Received]:
    """The datagrams of a receiver's file, in order of reception."""
    return rows_of(Received, path.read_text(), str(path))


_THIS = [sys.executable, "-m", "lab.traffic"]


# Functions that run inside the namespaces.


def _send(burst: Burst) -> None:
    payloads = burst.payloads()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((ip_of(burst.host), burst.udp_port))
        sender.connect((burst.sfu_ip, burst.udp_port))
        start_ns = time.monotonic_ns() + 1_000_000
        for idx, data in enumerate(payloads):
            _wait_until(start_ns + int(idx * burst.interval_ns))
            sender.send(data)


def _wait_until(deadline_ns: int) -> None:
    left_ns = deadline_ns - time.monotonic_ns()
    if left_ns > SPIN_NS:
        time.sleep((left_ns - SPIN_NS) / NS_PER_S)
    while time.monotonic_ns() < deadline_ns:
        pass


def grow_receive_buffer(receiver: socket.socket) -> None:
    """Makes the receive buffer large enough for a whole burst, however late the reader is."""
    try:
        receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
    except PermissionError:  # in a user namespace the system's limit applies
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)


def _open_receiver(specification: str) -> tuple[int, int, socket.socket]:
    host, udp_port, namespace_path = specification.split(":", 2)
    enter(namespace_path)
    receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    receiver.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    grow_receive_buffer(receiver)
    receiver.setblocking(False)
    receiver.bind((ip_of(int(host)), int(udp_port)))
    return int(host), int(udp_port), receiver


def _receive(path: Path, specifications: Sequence[str]) -> None:
    rows: list[Received] = []
    with selectors.DefaultSelector() as selector:
        for specification in specifications:
            host, udp_port, receiver = _open_receiver(specification)
            selector.register(receiver, selectors.EVENT_READ, (host, udp_port))
        for key in until_quiet(selector, f"{READY} {len(specifications)} sockets"):
            if isinstance(key.fileobj, socket.socket):
                host, udp_port = key.data
                _read_all(key.fileobj, host, udp_port, rows)
    write_whole(path, csv_text(Received, rows))


def until_quiet(selector: selectors.BaseSelector, ready: str) -> Iterator[selectors.SelectorKey]:
    """Prints `ready`; yields readable sockets until standard input ends and they are quiet."""
    stdin = selector.register(sys.stdin, selectors.EVENT_READ)
    print(ready, flush=True)
    timeout_s: float | None = None
    while (events := selector.select(timeout_s)) or timeout_s is None:
        for key, _ in events:
            if key is stdin:
                selector.unregister(sys.stdin)
                timeout_s = QUIET_S
            else:
                yield key


def _read_all(receiver: socket.socket, host: int, udp_port: int, rows: list[Received]) -> None:
    while True:
        try:
            data, ancillary, _, (src_ip, src_port) = receiver.recvmsg(MTU_BUFFER_BYTES, 64)
        except BlockingIOError:
            return
        time_s, below_s_ns = next(
            struct.unpack("qq", value) for _, kind, value in ancillary if kind == SO_TIMESTAMPNS
        )
        received_ns = time_s * NS_PER_S + below_s_ns
        rows.append(
            Received(host, udp_port, sequence_of(data), received_ns, digest(data), src_ip, src_port)
        )


def _inject(frame: bytes) -> None:
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((HOST_INTERFACE, 0))
        sender.send(frame)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.traffic", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    send = commands.add_parser("send", help="send a burst")
    send.add_argument("burst", type=lambda text: Burst(**json.loads(text)), help="as JSON")
    receive = commands.add_parser("receive", help="receive until standard input ends")
    receive.add_argument("--to", type=Path, required=True, help="the CSV file to write")
    receive.add_argument("sockets", nargs="+", metavar="HOST:UDP_PORT:NAMESPACE_FILE")
    injection = commands.add_parser("inject", help="send one frame")
    injection.add_argument("frame", type=bytes.fromhex, help="in hexadecimal")
    arguments = parser.parse_args()
    match arguments.command:
        case "send":
            _send(arguments.burst)
        case "receive":
            _receive(arguments.to, arguments.sockets)
        case "inject":
            _inject(arguments.frame)


if __name__ == "__main__":
    main()
