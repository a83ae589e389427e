"""`python -m lab.baselines.scapy_server`: the server in the README of the multicast paper.

(`docs/lab.md` says which paper.) The server has an interface for every participant. With Scapy it
sniffs on all of them and handles each packet asynchronously. A packet to the server belongs to the
group of its UDP port. The server sends it to every member of this group except the sender, with one
`sendp` call for each member. The program is simple on purpose, like `scapy_sfu`.

Each line of standard input is the new state of one group, `{"udp_port": 6363, "receivers":
[["10.1.0.2", "02:00:00:01:00:02", "p2"]]}`; after the nth line the program prints `done n`.
"""

import argparse
import os
import traceback
from typing import Any

from scapy.layers.inet import IP, UDP
from scapy.packet import Packet
from scapy.sendrecv import AsyncSniffer, sendp

from lab.baselines import READY
from lab.baselines.scapy_sfu import copy_for, is_for, listen


def serve(own_macs: dict[str, str], own_ip: str) -> None:
    """Replicates packets from every interface, until standard input ends."""
    groups: dict[int, list[tuple[str, str, str]]] = {}

    def change(group: Any) -> None:
        groups[group["udp_port"]] = group["receivers"]

    def replicate(packet: Packet) -> None:
        if not is_for(packet, own_ip):
            return
        for ip, mac, interface in groups.get(packet[UDP].dport, ()):
            if ip != packet[IP].src:
                copy = copy_for(packet, ip, mac, own_macs[interface])
                sendp(copy, iface=interface, verbose=False)

    def handle(packet: Packet) -> None:
        # Without this, an exception would end the sniffer's thread silently, and the process would
        # go on.
        try:
            replicate(packet)
        except Exception:
            traceback.print_exc()
            os._exit(1)

    AsyncSniffer(
        iface=list(own_macs),
        prn=handle,
        store=False,
        started_callback=lambda: print(f"{READY} {len(own_macs)} interfaces", flush=True),
    ).start()
    listen(change)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.baselines.scapy_server", description=__doc__
    )
    parser.add_argument("interface", nargs="+", metavar="INTERFACE=MAC")
    parser.add_argument("--ip", required=True, help="the server's own address")
    arguments = parser.parse_args()
    serve(dict(text.split("=", 1) for text in arguments.interface), arguments.ip)


if __name__ == "__main__":
    main()
