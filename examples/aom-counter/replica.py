"""A replica of a counter: applies the commands that the sequencer orders, and answers clients.

    replica.py MEMBER_FILE OWN_IP OTHER_IP...

All replicas apply the same commands in the same order, without asking each other, as long as
nothing is lost. A replica that misses a number asks the others, and believes one that shows the
message's certificate. A number that all have missed is skipped by all. docs/aom.md describes the
protocol.
"""

import contextlib
import json
import queue
import socket
import sys
import threading
import time
from typing import Any

from aom import DropNotification, Event, Member, Message

REPAIR_PORT = 60006
ASK_EVERY_S = 0.02

Number = tuple[int, int]
"""Epoch and number."""


class Counter:
    """What is replicated: commands "CLIENT REQUEST ADD HOST PORT" in, the sum out."""

    def __init__(self) -> None:
        self.value = 0
        self.answered: dict[str, tuple[int, int]] = {}

    def apply(self, command: str) -> tuple[str, int, str, int]:
        """The answer, and where it goes. A command that comes again is answered again only."""
        client, request, add, host, port = command.split()
        last, answer = self.answered.get(client, (-1, 0))
        if int(request) > last:
            self.value += int(add)
            last, answer = int(request), self.value
            self.answered[client] = last, answer
        return f"{client} {last} {answer}", self.value, host, int(port)


class Replica:
    """Applies what is ordered; what is missing is repaired first."""

    def __init__(self, member: Member, own: str, others: list[str]) -> None:
        self.member, self.others = member, others
        self.counter = Counter()
        # By number: message and certificate, or None where it was dropped here.
        self.history: dict[Number, tuple[bytes, bytes] | None] = {}
        self.last: Number = (0, 0)
        self.answers: queue.Queue[tuple[str, Any]] = queue.Queue()
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((own, REPAIR_PORT))
        threading.Thread(target=self.serve_others, daemon=True).start()

    def run(self) -> None:
        """For ever."""
        for event in self.member:
            self.take(event)

    def take(self, event: Event) -> None:
        """The next number. Before a new epoch's first, what was lost at the end of the old one."""
        if not isinstance(event, Message | DropNotification):
            sys.exit(f"the sequencer equivocates: {event}")
        if self.last[0] and event.epoch > self.last[0]:
            self.finish_epoch(self.last[0], event.epoch)
        if isinstance(event, Message):
            self.settle((event.epoch, event.sequence), (event.payload, event.certificate))
        else:
            self.repair((event.epoch, event.sequence))

    def finish_epoch(self, epoch: int, next_epoch: int) -> None:
        """The others may have got further in an epoch that is over for all."""
        self.last = (next_epoch, 0)
        ends = self.ask({"end of": epoch}).values()
        own = max((number for of, number in self.history if of == epoch), default=0)
        for number in range(own + 1, max([own, *ends]) + 1):
            self.repair((epoch, number))

    def repair(self, number: Number) -> None:
        """Another has it, or all have dropped it."""
        self.history[number] = None
        for answer in self.ask({"number": number}, enough=self.is_proved).values():
            if answer is not None:
                message, certificate = map(bytes.fromhex, answer)
                self.settle(number, (message, certificate))
                print(f"repaired {number}", flush=True)
                return
        print(f"skipped {number}", flush=True)

    def is_proved(self, answer: Any) -> bool:
        """Whether an answer is a message that this replica's own key confirms."""
        if answer is None:
            return False
        message, certificate = map(bytes.fromhex, answer)
        return self.member.verify(certificate, message)

    def settle(self, number: Number, proved: tuple[bytes, bytes]) -> None:
        """Applies a command and answers its client."""
        self.history[number] = proved
        self.last = max(self.last, number)
        answer, value, host, port = self.counter.apply(proved[0].decode())
        print(f"{number[0]} {number[1]} {proved[0].decode()} = {value}", flush=True)
        with contextlib.suppress(OSError):  # A client that cannot be reached asks again.
            self.socket.sendto(answer.encode(), (host, port))

    def ask(self, question: dict[str, Any], enough: Any = lambda _: False) -> dict[str, Any]:
        """Every other's answer, by who gave it, or the first that is enough; asked until there."""
        asked = json.dumps(question)
        answers: dict[str, Any] = {}
        while len(answers) < len(self.others):
            for other in set(self.others) - set(answers):
                self.socket.sendto(asked.encode(), (other, REPAIR_PORT))
            until = time.monotonic() + ASK_EVERY_S
            while (left := until - time.monotonic()) > 0 and len(answers) < len(self.others):
                try:
                    who, (of, answer) = self.answers.get(timeout=left)
                except queue.Empty:
                    break
                if of != asked:
                    continue
                if enough(answer):
                    return {who: answer}
                # A message that is not proved is no answer: whoever gave it may be lying.
                if answer is None or isinstance(answer, int):
                    answers[who] = answer
        return answers

    def serve_others(self) -> None:
        """Answers what is known for certain, and leaves the rest to be asked again."""
        while True:
            datagram, (who, port) = self.socket.recvfrom(65535)
            document = json.loads(datagram)
            if isinstance(document, list):
                self.answers.put((who, document))
                continue
            known, answer = self.known(document)
            if known:
                said = json.dumps([datagram.decode(), answer]).encode()
                self.socket.sendto(said, (who, port))

    def known(self, question: dict[str, Any]) -> tuple[bool, Any]:
        """Of a number: its message and certificate, or None if it was dropped here, too."""
        if "end of" in question:
            epoch = question["end of"]
            numbers = [number for of, number in list(self.history) if of == epoch]
            return self.last[0] > epoch, max(numbers, default=0)
        number = (question["number"][0], question["number"][1])
        if number not in self.history:
            return False, None
        proved = self.history[number]
        return True, proved and [part.hex() for part in proved]


def main() -> None:
    """Joins, and goes on until it is ended."""
    member = Member.join(sys.argv[1])
    print("joined", flush=True)
    Replica(member, sys.argv[2], sys.argv[3:]).run()


if __name__ == "__main__":
    main()
