"""Sends COUNT requests with the messages "WHO 0", "WHO 1", ... to a group.

The arguments are ADDRESS WHO COUNT RATE [signed].
"""

import socket
import sys
import time

from aom import UDP_PORT, request


def main() -> None:
    """Sends RATE requests a second; after a delay it does not send faster to catch up."""
    address, who, count, rate = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
    group = (address, UDP_PORT)
    signed = sys.argv[5:] == ["signed"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        at = time.monotonic()
        for number in range(count):
            sender.sendto(request(f"{who} {number}".encode(), signed=signed), group)
            if number == 0:
                print("sending", flush=True)
            at = max(at + 1 / rate, time.monotonic() - 0.01)
            time.sleep(max(0.0, at - time.monotonic()))
    print("sent", flush=True)


if __name__ == "__main__":
    main()
