"""The user-space SFU of the thesis, section 2.3; on a host, `python -m lab.baselines.scapy_sfu`.

Python 3 and Scapy, one thread, the groups in a dictionary, one `sendp` a copy. Simple on purpose:
it does what the P4 SFU does in the plainest way that Python offers, as a reader of Scapy's manual
would write it. So `sniff` filters in Python, and each `sendp` opens and closes a socket.
"""

import argparse
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.sendrecv import sendp, sniff

READY = "ready:"


@dataclass(frozen=True, slots=True)
class Viewer:
    """Where copies go."""

    ip: str
    mac: str


Groups = Mapping[str, Sequence[Viewer]]
"""The viewers of each presenter, by the presenter's address."""


def copy_for(packet: Packet, viewer: Viewer, own_mac: str) -> Packet:
    """A clone of `packet` to `viewer`; Scapy computes the checksums anew when it is sent."""
    clone = packet.copy()
    clone[Ether].src = own_mac
    clone[Ether].dst = viewer.mac
    clone[IP].dst = viewer.ip
    del clone[IP].chksum
    del clone[UDP].chksum
    return clone


def serve(interface: str, own_ip: str, own_mac: str, groups: Groups, sleep_s: float) -> None:
    """Copies each UDP packet to `own_ip` to the viewers of its sender, until the process ends."""

    def replicate(packet: Packet) -> None:
        if sleep_s:
            time.sleep(sleep_s)
        for viewer in groups.get(packet[IP].src, ()):
            sendp(copy_for(packet, viewer, own_mac), iface=interface, verbose=False)

    def is_for_us(packet: Packet) -> bool:
        return IP in packet and UDP in packet and packet[IP].dst == own_ip

    def ready() -> None:
        print(f"{READY} serving {len(groups)} groups", flush=True)

    sniff(iface=interface, lfilter=is_for_us, prn=replicate, store=False, started_callback=ready)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m lab.baselines.scapy_sfu", description=__doc__)
    parser.add_argument("interface")
    parser.add_argument("--ip", required=True, help="the SFU's own address")
    parser.add_argument("--mac", required=True, help="the SFU's own Ethernet address")
    parser.add_argument("--udp-port", type=int, required=True)
    parser.add_argument("--presenter", required=True, help="its IPv4 address")
    parser.add_argument("--viewer", action="append", default=[], metavar="IP=MAC")
    parser.add_argument("--sleep-ms", type=float, default=0.0, help="for tests: before each packet")
    arguments = parser.parse_args()
    viewers = [Viewer(*text.split("=", 1)) for text in arguments.viewer]
    # Nobody reads it: it only keeps the kernel from answering every packet "port unreachable".
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unread:
        unread.bind((arguments.ip, arguments.udp_port))
        serve(
            arguments.interface,
            arguments.ip,
            arguments.mac,
            {arguments.presenter: viewers},
            arguments.sleep_ms / 1000,
        )


if __name__ == "__main__":
    main()
