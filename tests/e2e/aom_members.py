"""Members that join whenever they can, a thread for each file.

What they are told they write at once, a line of JSON each. They end when their input does.
"""

import json
import sys
import threading
from pathlib import Path

from aom import DropNotification, Error, Member, Message

JOIN_TIMEOUT_S = 5.0
PAUSE_S = 0.2


def main() -> None:
    """Joins with the files that are the arguments."""
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
    """One member; it joins again until it has a membership, and no more once it was refused."""
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
    """What it is told, until it is told no more."""
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
    """A line whole: it is not lost with the process, and not mixed with another thread's."""
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
