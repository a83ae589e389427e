"""Several members in one process: for each member file a thread tries to join until it can.

They print each event at once, as a line of JSON. They end when standard input ends.
"""

import json
import sys
import threading
from pathlib import Path

from aom import DropNotification, Error, Member, Message

JOIN_TIMEOUT_S = 5.0
PAUSE_S = 0.2


def main() -> None:
    """Starts a thread for each member file among the arguments."""
    ended = threading.Event()
    threads = [threading.Thread(target=follow, args=(file, ended)) for file in sys.argv[1:]]
    for thread in threads:
        thread.start()
    print("started", flush=True)
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()


def follow(file: str, ended: threading.Event) -> None:
    """Tries to join until it succeeds, then prints the member's events. It joins only once."""
    name = Path(file).stem
    while not ended.is_set():
        try:
            member = Member.join(file, timeout_s=JOIN_TIMEOUT_S)
        except Error as error:
            tell(name, 0, 0, "not joined", str(error))
            ended.wait(PAUSE_S)
            continue
        read(name, member, ended)
        member.leave()
        return


def read(name: str, member: Member, ended: threading.Event) -> None:
    """Prints a member's events until its membership ends."""
    while not ended.is_set():
        try:
            event = member.next(PAUSE_S)
        except Error as error:
            tell(name, 0, 0, "over", str(error))
            return
        match event:
            case Message(epoch, number, payload, _):
                tell(name, epoch, number, "message", payload.decode())
            case DropNotification(epoch, number):
                tell(name, epoch, number, "drop", "")
            case None:
                pass
            case other:
                tell(name, 0, 0, "evidence", str(other))


def tell(*event: object) -> None:
    """Prints a line in one write: a kill cannot cut it, and no other thread can write into it."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
