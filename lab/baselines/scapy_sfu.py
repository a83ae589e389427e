"""The user-space SFU of the thesis, section 2.3: `python -m lab.baselines.scapy_sfu`.

It keeps groups in a dictionary and sends each copy by one `sendp` of Scapy. It is simple on
purpose: it does the same as the P4 SFU, but in the plainest way that Python offers, as a reader of
Scapy's manual would write it. Therefore `sniff` filters in Python, and each `sendp` opens and
closes a socket.

Each line of standard input is the new state of one stream, `{"sender": "10.1.0.1", "udp_port":
5004, "viewers": [["10.1.0.2", "02:00:00:00:00:02"]]}`; after the nth line the program prints `done
n`.
"""

import argparse
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Packet
from scapy.sendrecv import sendp, sniff

from lab.baselines import READY


def copy_for(packet: Packet, ip: str, mac: str, own_mac: str) -> Packet:
    """Returns a clone of `packet` that is addressed to a viewer.

    Scapy computes the checksums of the clone when it sends the clone.
    """
    clone = packet.copy()
    clone[Ether].src = own_mac
    clone[Ether].dst = mac
    clone[IP].dst = ip
    del clone[IP].chksum
    del clone[UDP].chksum
    return clone


def is_for(packet: Packet, own_ip: str) -> bool:
    return IP in packet and UDP in packet and packet[IP].dst == own_ip


def listen(change: Callable[[Any], None]) -> None:
    """Calls `change` with each parsed line of standard input and prints `done n`; then exits."""
    for number, line in enumerate(sys.stdin, 1):
        change(json.loads(line))
        print(f"done {number}", flush=True)
    os._exit(0)


def serve(interface: str, own_ip: str, own_mac: str) -> None:
    """Copies each UDP packet for `own_ip` to its stream's viewers, until standard input ends."""
    viewers: dict[tuple[str, int], list[tuple[str, str]]] = {}

    def change(stream: Any) -> None:
        viewers[stream["sender"], stream["udp_port"]] = stream["viewers"]

    def replicate(packet: Packet) -> None:
        for ip, mac in viewers.get((packet[IP].src, packet[UDP].dport), ()):
            sendp(copy_for(packet, ip, mac, own_mac), iface=interface, verbose=False)

    threading.Thread(target=listen, args=[change], daemon=True).start()
    sniff(
        iface=interface,
        lfilter=lambda packet: is_for(packet, own_ip),
        prn=replicate,
        store=False,
        started_callback=lambda: print(f"{READY} {interface}", flush=True),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.baselines.scapy_sfu", description=__doc__)
    parser.add_argument("interface")
    parser.add_argument("--ip", required=True, help="the SFU's own address")
    parser.add_argument("--mac", required=True, help="the SFU's own Ethernet address")
    arguments = parser.parse_args()
    serve(arguments.interface, arguments.ip, arguments.mac)


if __name__ == "__main__":
    main()
