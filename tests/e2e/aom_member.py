"""A member of an ordered group. It prints events as lines of JSON until its standard input ends.

To a line "verify CERTIFICATE MESSAGE" on its input it answers "verify: True" or "verify: False".
"""

import json
import sys
import threading

from aom import DropNotification, Error, Member, Message


def main() -> None:
    """Joins the group with the member file that is the argument."""
    member = Member.join(sys.argv[1], timeout_s=120.0)
    print("joined", flush=True)
    ended = threading.Event()
    reader = threading.Thread(target=read, args=(member, ended))
    reader.start()
    for line in sys.stdin:
        command, certificate, message = line.split(" ", 2)
        believed = member.verify(bytes.fromhex(certificate), message.rstrip("\n").encode())
        print(f"{command}: {believed}", flush=True)
    ended.set()
    reader.join()


def read(member: Member, ended: threading.Event) -> None:
    """Prints events until `ended` is set, and then also the events that have already arrived."""
    quiet = False
    while not (ended.is_set() and quiet):
        try:
            event = member.next(0.2)
        except Error as error:
            print(f"over: {error}", flush=True)
            return
        quiet = event is None
        match event:
            case Message(epoch, number, payload, certificate):
                tell(epoch, number, "message", payload.decode(), certificate.hex())
            case DropNotification(epoch, first, last):
                for number in range(first, last + 1):
                    tell(epoch, number, "drop", "", "")
            case None:
                sys.stdout.flush()
            case other:
                print(f"evidence: {other}", flush=True)


def tell(epoch: int, number: int, kind: str, text: str, shown: str) -> None:
    print(json.dumps([epoch, number, kind, text, shown]))


if __name__ == "__main__":
    main()
