"""Runs a stand-in for an SFU, for tests of the lab's own tools.

It runs in the lab's star: network namespaces of the SFU and of hosts, which a bridge connects.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.addresses import SFU_IP, SFU_MAC, SFU_UDP_PORT, ip_of, mac_of
from lab.netns import HOST_INTERFACE, SFU_INTERFACE, Star

LIMIT_S = 120.0


@contextmanager
def stand_in(star: Star, viewers: Sequence[int], logs: Path, *mistakes: str) -> Iterator[None]:
    """Runs a forwarder that copies host 1's packets, including RTCP, to the viewers.

    `mistakes` are options of forwarder.py that let the forwarder make mistakes.
    """
    star.host(1).run(["ip", "neighbour", "add", SFU_IP, "lladdr", SFU_MAC, "dev", HOST_INTERFACE])
    program = [sys.executable, "-m", "tests.study.forwarder", SFU_INTERFACE, "--any-checksum"]
    with star.sfu.start([*program, *mistakes], logs / "stand-in.log") as forwarder:
        forwarder.wait_for_line("ready:", LIMIT_S)
        for n_told, udp_port in enumerate((SFU_UDP_PORT, SFU_UDP_PORT + 1), 1):
            told = [
                {"ip": ip_of(n), "mac": mac_of(n), "port": 1, "udp_port": udp_port} for n in viewers
            ]
            forwarder.tell(json.dumps({"ip": ip_of(1), "udp_port": udp_port, "viewers": told}))
            forwarder.wait_for_line(f"done {n_told}", LIMIT_S)
        yield
