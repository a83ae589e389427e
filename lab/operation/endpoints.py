"""One process with the sockets of all hosts: presenters send all the time, viewers receive.

`python -m lab.operation.endpoints CONFIG.json`. The process appends fixed-size records of sent and
of received packets to two files, which the parent process reads meanwhile. A line of JSON on
standard input changes the addresses to which presenters send.
"""

import heapq
import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from lab.addresses import SFU_UDP_PORT
from lab.netns import Namespace
from lab.process import Child
from lab.traffic import READY, RECEIVE_BUFFER_BYTES, SO_RCVBUFFORCE

SENT = struct.Struct("=HIq")
"""A record of a sent packet: presenter, sequence number, time (CLOCK_MONOTONIC, ns)."""
RECEIVED = struct.Struct("=HHHIq")
"""A record of a received packet: viewer, its UDP port, presenter, sequence number, time."""
PAYLOAD = struct.Struct("!8sHI")
MAGIC = b"operated"
FLOOD_SEQUENCE = 0xFFFF_FFFF
"""The sequence number in frames of a flood, in which a host sends as fast as it can. No host
must get these frames."""
READ_BYTES = 2048
FLUSH_S = 0.05
ORDER = "order"
ORDER_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True)
class Config:
    namespaces: Mapping[str, str]
    """The name of each host's namespace, by the host's number (as text, for JSON)."""
    ips: Mapping[str, str]
    presenters: list[int]
    udp_ports: list[int]
    rate_pps: float
    payload_bytes: int
    sfu_ips: Mapping[str, str]
    """The SFU's address to which each presenter sends, by the presenter's number (as text)."""
    sent: str
    received: str


class Endpoints:
    """Starts the process that has the sockets, and talks to it."""

    def __init__(self, config: Config, folder: Path) -> None:
        self._files = (Path(config.sent), Path(config.received))
        for file in self._files:
            file.touch()
        config_file = folder / "endpoints.json"
        config_file.write_text(json.dumps(asdict(config)))
        argv = [sys.executable, "-m", __spec__.name, str(config_file)]
        self.child = Child(argv, folder / "endpoints.log")
        self._read = [0, 0]
        self._n_orders = 0
        try:
            self.child.wait_for_line(READY, 120.0)
        except BaseException:
            self.child.stop()
            raise

    def send_to(self, sfu_ips: Mapping[str, str]) -> None:
        """Changes the addresses to which presenters send.

        Presenters that are not in `sfu_ips` send as before.
        """
        self._n_orders += 1
        self.child.tell(json.dumps(sfu_ips))
        self.child.wait_for_line(f"{ORDER} {self._n_orders}:", ORDER_TIMEOUT_S)

    def new_sent(self) -> Iterator[tuple[int, int, int]]:
        """The records of sent packets since the last call."""
        return SENT.iter_unpack(self._new(0, SENT.size))

    def new_received(self) -> Iterator[tuple[int, int, int, int, int]]:
        """The records of received packets since the last call."""
        return RECEIVED.iter_unpack(self._new(1, RECEIVED.size))

    def _new(self, which: int, record_len: int) -> bytes:
        with self._files[which].open("rb") as file:
            file.seek(self._read[which])
            data = file.read()
        whole = data[: len(data) // record_len * record_len]
        self._read[which] += len(whole)
        return whole


class _Process:
    def __init__(self, config: Config, sent: BinaryIO, received: BinaryIO) -> None:
        self.config = config
        self.sent = sent
        self.received = received
        self.sfu_ips = dict(config.sfu_ips)
        self.n_orders = 0
        self.selector = selectors.DefaultSelector()
        self.selector.register(sys.stdin, selectors.EVENT_READ, None)
        self.senders: dict[int, socket.socket] = {}
        for host, namespace in config.namespaces.items():
            for udp_port in config.udp_ports:
                # A socket stays in the namespace in which it was made.
                opened = Namespace(namespace).call(
                    lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                )
                opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, RECEIVE_BUFFER_BYTES)
                opened.bind((config.ips[host], udp_port))
                opened.setblocking(False)
                self.selector.register(opened, selectors.EVENT_READ, (int(host), udp_port))
                if udp_port == SFU_UDP_PORT and int(host) in config.presenters:
                    self.senders[int(host)] = opened
        self.sequences = dict.fromkeys(config.presenters, 0)

    def run(self) -> None:
        interval_s = 1 / self.config.rate_pps
        now_s = time.monotonic()
        spread = enumerate(self.config.presenters)
        due = [(now_s + place * interval_s / 8, presenter) for place, presenter in spread]
        heapq.heapify(due)
        flush_s = now_s
        while True:
            now_s = time.monotonic()
            while due and due[0][0] <= now_s:
                at_s, presenter = heapq.heappop(due)
                self._send(presenter)
                # A presenter that is late by more than a second skips the lost time instead of
                # sending a burst.
                heapq.heappush(due, (max(at_s + interval_s, now_s - 1), presenter))
            if now_s >= flush_s:
                self.sent.flush()
                self.received.flush()
                flush_s = now_s + FLUSH_S
            wake_s = min([flush_s, *(at for at, _ in due[:1])])
            for key, _ in self.selector.select(max(0.0, wake_s - time.monotonic())):
                if key.data is None:
                    line = sys.stdin.readline()
                    if not line:
                        return
                    self.sfu_ips |= json.loads(line)
                    self.n_orders += 1
                    print(f"{ORDER} {self.n_orders}: {self.sfu_ips}", flush=True)
                else:
                    self._receive(key.fileobj, *key.data)

    def _send(self, presenter: int) -> None:
        sequence = self.sequences[presenter]
        self.sequences[presenter] = sequence + 1
        data = PAYLOAD.pack(MAGIC, presenter, sequence).ljust(self.config.payload_bytes, b"x")
        at_ns = time.monotonic_ns()
        try:
            to = (self.sfu_ips[str(presenter)], SFU_UDP_PORT)
            self.senders[presenter].sendto(data, to)
        except OSError:
            # The presenter's link is down: nothing was sent.
            return
        self.sent.write(SENT.pack(presenter, sequence, at_ns))

    def _receive(self, opened: Any, host: int, udp_port: int) -> None:
        while True:
            try:
                data = opened.recv(READ_BYTES)
            except BlockingIOError:
                return
            except OSError:
                # The error is an ICMP message about an earlier packet. There may be more to read.
                continue
            at_ns = time.monotonic_ns()
            if data[: len(MAGIC)] != MAGIC:
                raise SystemExit(
                    f"h{host}:{udp_port} got a datagram that nobody here sent: {data!r}"
                )
            _, presenter, sequence = PAYLOAD.unpack_from(data)
            self.received.write(RECEIVED.pack(host, udp_port, presenter, sequence, at_ns))


def main() -> None:
    config = Config(**json.loads(Path(sys.argv[1]).read_text()))
    with Path(config.sent).open("wb") as sent, Path(config.received).open("wb") as received:
        process = _Process(config, sent, received)
        print(READY, flush=True)
        process.run()


if __name__ == "__main__":
    main()
