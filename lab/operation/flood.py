"""`python -m lab.operation.flood KIND HOST SFU FRAMES SEED`, inside a host's namespace.

Sends FRAMES frames as fast as it can, and ends. A correct P4 program drops frames of every kind but
`stream`, which a presenter's viewers get.
"""

import random
import socket
import sys

from lab.addresses import SFU_UDP_PORT, ip_of, mac_of
from lab.frames import mac_bytes
from lab.netns import HOST_INTERFACE
from lab.operation.endpoints import FLOOD_SEQUENCE, MAGIC, PAYLOAD

KINDS = ("unknown", "malformed", "stream")
DISCARD_PORT = 9
"""The UDP port of the discard protocol (RFC 863). No stream uses this port."""


def send_datagrams(sfu_ip: str, udp_port: int, payload: bytes, n_frames: int) -> None:
    """Sends datagrams from an ordinary socket."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as opened:
        for _ in range(n_frames):
            try:
                opened.sendto(payload, (sfu_ip, udp_port))
            except OSError:
                return


def send_malformed(sfu_mac: str, n_frames: int, choose: random.Random) -> None:
    """Sends frames to the SFU with random contents and lengths: IPv4, ARP, IPv6, VLAN."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as opened:
        opened.bind((HOST_INTERFACE, 0))
        source = opened.getsockname()[4]
        kinds = [b"\x08\x00", b"\x08\x06", b"\x86\xdd", b"\x81\x00"]
        for _ in range(n_frames):
            body = choose.randbytes(choose.randrange(0, 200))
            if choose.random() < 0.5:
                # With the first byte of an IPv4 header the frame gets further in the parser.
                body = b"\x45" + body
            frame = mac_bytes(sfu_mac) + source + choose.choice(kinds) + body
            try:
                opened.send(frame)
            except OSError:
                return


def main() -> None:
    kind = sys.argv[1]
    host, sfu, n_frames, seed = map(int, sys.argv[2:])
    if kind == "malformed":
        send_malformed(mac_of(sfu), n_frames, random.Random(seed))
    else:
        udp_port = SFU_UDP_PORT if kind == "stream" else DISCARD_PORT
        payload = PAYLOAD.pack(MAGIC, host, FLOOD_SEQUENCE).ljust(200, b"x")
        send_datagrams(ip_of(sfu), udp_port, payload, n_frames)


if __name__ == "__main__":
    main()
