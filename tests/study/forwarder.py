"""A stand-in for an SFU: copies datagrams, and makes the mistakes that its options name.

Each line on standard input has a stream's viewers, as JSON, and is answered by a line. A packet
with a wrong checksum is copied only with `--any-checksum`. A number says how often a mistake is
made: `--lose 10` loses a copy of every tenth packet.
"""

import argparse
import itertools
import json
import selectors
import socket
import sys
import time
from dataclasses import dataclass, replace
from typing import Any

from lab.frames import UdpFrame, checksums_are_right, parse_udp, udp_frame
from tests.packet_sockets import FRAME_LEN_BYTES_MAX, packet_socket


@dataclass
class Viewer:
    ip: str
    mac: str
    port: int
    udp_port: int


class Forwarder:
    def __init__(self, options: argparse.Namespace, ports: dict[int, socket.socket]) -> None:
        self._options = options
        self._ports = ports
        self._viewers: dict[tuple[str, int], list[Viewer]] = {}
        self._delays_ms = itertools.cycle(options.delay_ms)
        self._n_told = self._n_packets = 0
        self._held: list[tuple[Viewer, bytes]] = []

    def subscribe(self, line: str) -> None:
        told = json.loads(line)
        time.sleep(self._options.slow)
        viewers = [Viewer(**viewer) for viewer in told["viewers"]]
        self._viewers[(told["ip"], told["udp_port"])] = viewers
        self._n_told += 1
        print(f"done {self._n_told}", flush=True)

    def take(self, frame: bytes) -> None:
        packet = parse_udp(frame)
        viewers = self._viewers.get((packet.src_ip, packet.dst_port)) if packet else None
        if packet is None or not viewers:
            return
        if not self._options.any_checksum and not checksums_are_right(frame):
            return
        self._n_packets += 1
        if (delay_ms := next(self._delays_ms)) > 0:
            time.sleep(delay_ms / 1e3)
        copies = [(viewer, self._copy(packet, viewer)) for viewer in viewers]
        options = self._options
        if self._is_due(options.swap):
            self._held = copies
            return
        if self._is_due(options.lose):
            copies.pop()
        if self._is_due(options.reverse):
            copies.reverse()
        if self._is_due(options.double):
            copies.append(copies[-1])
        if self._is_due(options.stray):
            copies[-1] = (copies[-1][0], self._copy(packet, replace(viewers[-1], ip=options.to)))
        if self._is_due(options.noise):
            noise = replace(packet, payload=bytes(len(packet.payload)), dst_ip=viewers[0].ip)
            copies.append((viewers[0], udp_frame(noise)))
        for viewer, copy in copies + self._held:
            self._ports[viewer.port].send(copy)
        self._held = []

    def _is_due(self, every: int) -> bool:
        return every > 0 and self._n_packets % every == 0

    def _copy(self, packet: UdpFrame, viewer: Viewer) -> bytes:
        return udp_frame(
            replace(
                packet,
                eth_src=packet.eth_dst,
                eth_dst=viewer.mac,
                src_ip=packet.dst_ip,
                dst_ip=viewer.ip,
                dst_port=viewer.udp_port,
            )
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("interfaces", nargs="+")
    for mistake in ("swap", "lose", "reverse", "double", "stray", "noise"):
        parser.add_argument(f"--{mistake}", type=int, default=0, metavar="EVERY")
    parser.add_argument("--any-checksum", action="store_true", help="copy what has a wrong one")
    parser.add_argument("--slow", type=float, default=0.0, help="seconds for a subscription")
    parser.add_argument("--to", default="", help="the stranger's address")
    parser.add_argument("--delay-ms", type=float, nargs="+", default=[0.0])
    return parser.parse_args()


def main() -> None:
    options = parse()
    ports = {idx: packet_socket(name) for idx, name in enumerate(options.interfaces, 1)}
    forwarder = Forwarder(options, ports)
    selector = selectors.DefaultSelector()
    for port in ports.values():
        selector.register(port, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("ready:", flush=True)
    while True:
        for key, _ in selector.select():
            one: Any = key.fileobj
            if one is sys.stdin:
                if not (line := sys.stdin.readline()):
                    return
                forwarder.subscribe(line)
                continue
            forwarder.take(one.recv(FRAME_LEN_BYTES_MAX))


if __name__ == "__main__":
    main()
