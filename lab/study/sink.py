"""Viewers that receive and do not look; `python -m lab.study.sink UDP_PORT NAMESPACE_FILE...`.

A socket in each namespace keeps its kernel from answering copies with "port unreachable". Nobody
reads them: reading would take processor time from the SFU that is measured.
"""

import socket
import sys

from lab.netns import enter
from lab.traffic import READY


def main() -> None:
    """Opens the sockets and keeps them until standard input ends."""
    udp_port, *namespace_paths = sys.argv[1:]
    sockets = []
    for path in namespace_paths:
        enter(path)
        sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sink.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        sink.bind(("", int(udp_port)))
        sockets.append(sink)
    print(f"{READY} {len(sockets)} sinks", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
