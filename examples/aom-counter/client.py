"""A client of the replicated counter: adds 1 COUNT times, each until enough replicas agree.

client.py GROUP_IP OWN_IP NAME COUNT REPLICAS
"""

import socket
import sys
import time

from aom import UDP_PORT, request

PATIENCE_S = 0.1


def main() -> None:
    """One command after the other; a command that is not answered is sent again."""
    group, own, name = sys.argv[1:4]
    count, n_replicas = int(sys.argv[4]), int(sys.argv[5])
    # With 3f+1 replicas, of which f may lie, 2f+1 equal answers.
    quorum = n_replicas - (n_replicas - 1) // 3
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind((own, 0))
        port = client.getsockname()[1]
        for number in range(count):
            command = f"{name} {number} 1 {own} {port}".encode()
            answer = ask(client, command, (group, UDP_PORT), f"{name} {number} ", quorum)
            print(answer, flush=True)


def ask(
    client: socket.socket, command: bytes, group: tuple[str, int], prefix: str, quorum: int
) -> str:
    """What a quorum of the replicas has answered."""
    answers: dict[str, str] = {}
    while True:
        client.sendto(request(command), group)
        until = time.monotonic() + PATIENCE_S
        while (left := until - time.monotonic()) > 0:
            client.settimeout(left)
            try:
                datagram, (replica, _) = client.recvfrom(2048)
            except TimeoutError:
                break
            answer = datagram.decode()
            if answer.startswith(prefix):
                answers[replica] = answer
            if sum(other == answer for other in answers.values()) >= quorum:
                return answer


if __name__ == "__main__":
    main()
