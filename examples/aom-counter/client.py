"""A client of the replicated counter: adds 1, COUNT times, and waits for a quorum each time.

client.py GROUP_IP OWN_IP NAME COUNT REPLICA_IP...
"""

import socket
import sys
import time

from aom import UDP_PORT, request
from counter import COMMAND_BYTES_MAX

ANSWER_PORT = 60006
"""The port from which replicas answer. Replicas also use this port among themselves."""
PATIENCE_S = 0.1


def main() -> None:
    """Sends one command after the other; repeats each until a quorum answers it."""
    group, own, name, count = *sys.argv[1:4], int(sys.argv[4])
    replicas = {(replica, ANSWER_PORT) for replica in sys.argv[5:]}
    # With 3f+1 replicas, of which f may lie, a quorum is 2f+1 equal answers.
    quorum = len(replicas) - (len(replicas) - 1) // 3
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.bind((own, 0))
        port = client.getsockname()[1]
        for number in range(count):
            command = f"{name} {number} 1 {own} {port}".encode()
            answer = ask(client, command, (group, UDP_PORT), replicas, quorum)
            print(answer, flush=True)


def ask(
    client: socket.socket,
    command: bytes,
    group: tuple[str, int],
    replicas: set[tuple[str, int]],
    quorum: int,
) -> str:
    """Returns the answer that a quorum of the replicas gives; ignores all other senders."""
    name, number, *_ = command.split(b" ")
    prefix = name + b" " + number + b" "
    answers: dict[tuple[str, int], bytes] = {}
    while True:
        client.sendto(request(command), group)
        until = time.monotonic() + PATIENCE_S
        while (left := until - time.monotonic()) > 0:
            client.settimeout(left)
            try:
                answer, replica = client.recvfrom(2048)
            except TimeoutError:
                break
            is_answer = answer.startswith(prefix) and len(answer) <= COMMAND_BYTES_MAX
            if replica not in replicas or not is_answer:
                continue
            answers[replica] = answer
            if sum(other == answer for other in answers.values()) >= quorum:
                return answer.decode("ascii", "replace")


if __name__ == "__main__":
    main()
