"""A stand-in for the switch, as the system under test of the lab's own tools; nothing else uses it.

Copies each UDP datagram for the SFU to every viewer, and makes the mistakes that it is told to.
"""

import argparse
import socket
from dataclasses import replace

from lab.addresses import SFU_IP, SFU_MAC, ip_of, mac_of
from lab.frames import UdpFrame, parse_udp, udp_frame
from lab.traffic import grow_receive_buffer

PACKET_OUTGOING = 4
FRAME_LEN_BYTES_MAX = 65536


def copies(packet: UdpFrame, viewers: list[int], mistake: str) -> list[bytes]:
    targets = list(viewers)
    if mistake != "none":
        if mistake == "lose":
            targets.pop()
        elif mistake == "double":
            targets.append(targets[0])
        elif mistake == "reorder":
            targets.reverse()
    return [
        udp_frame(replace(packet, eth_src=SFU_MAC, eth_dst=mac_of(n), dst_ip=ip_of(n)))
        for n in targets
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("interface")
    parser.add_argument("viewers", nargs="+", type=int)
    parser.add_argument("--mistake", choices=["none", "lose", "double", "reorder"], default="none")
    parser.add_argument("--every", type=int, default=10)
    arguments = parser.parse_args()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as port:
        grow_receive_buffer(port)
        port.bind((arguments.interface, 3))
        print("ready:", flush=True)
        n_packets = 0
        while True:
            frame, address = port.recvfrom(FRAME_LEN_BYTES_MAX)
            packet = parse_udp(frame)
            if packet is None or address[2] == PACKET_OUTGOING or packet.dst_ip != SFU_IP:
                continue
            n_packets += 1
            mistake = "none" if n_packets % arguments.every else arguments.mistake
            for copy in copies(packet, arguments.viewers, mistake):
                port.send(copy)


if __name__ == "__main__":
    main()
