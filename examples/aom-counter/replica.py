"""A replica of a counter: applies the commands that the sequencer orders, and answers clients.

    replica.py MEMBER_FILE OWN_IP OTHER_IP...

All replicas apply the same commands in the same order, without asking each other, as long as
nothing is lost. A replica that misses numbers asks the others, and believes one that shows a
message's certificate. If all replicas have missed a number, all of them skip it. docs/aom.md
describes the protocol, and where it trusts the other replicas.

Requests and datagrams come from anybody: counter.py decodes them.
"""

import contextlib
import queue
import secrets
import socket
import sys
import threading
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import replace

from aom import DropNotification, Error, Event, Member, Message, proved_number
from counter import NUMBER_LAST, Answer, Command, Counter, Number, Proved, Question, parse

REPAIR_PORT = 60006
ASK_EVERY_S = 0.02
ANSWERS_MAX = 1000
HISTORY_MAX = 100_000
"""The least number of last messages that a replica keeps for the other replicas. A replica that
misses an older message cannot get it from the other replicas."""


class History:
    """The last messages, by their numbers. Two threads use a history, so it has a lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers: list[Number] = []
        self._proved: dict[Number, Proved] = {}
        self._passed: Number = (0, 0)
        self._forgotten: Number = (0, 0)

    def begin(self, number: Number) -> None:
        """Declares that the replica has every message from this number on."""
        with self._lock:
            self._forgotten = (number[0], number[1] - 1)

    def add(self, proved: Proved) -> None:
        """Adds a message, whose number must be larger than all others."""
        with self._lock:
            self._numbers.append(proved.number)
            self._proved[proved.number] = proved
            if len(self._numbers) > 2 * HISTORY_MAX:
                gone, self._numbers = self._numbers[:-HISTORY_MAX], self._numbers[-HISTORY_MAX:]
                self._forgotten = gone[-1]
                for number in gone:
                    del self._proved[number]

    def pass_by(self, number: Number) -> None:
        """Declares that this replica gets no more messages with this number or a lower one."""
        with self._lock:
            self._passed = max(self._passed, number)

    def last_of(self, epoch: int) -> int:
        """The last number of an epoch whose message is here, or 0."""
        with self._lock:
            return self._last_of(epoch)

    def answer(self, question: Question) -> Answer | None:
        """Answers a question; None if this replica does not know the answer yet, or no longer."""
        first, last = (question.epoch, question.first), (question.epoch, question.last)
        with self._lock:
            if question.wants_last:
                if self._passed[0] <= question.epoch:
                    return None
                number = (question.epoch, self._last_of(question.epoch))
                return Answer(question.nonce, self._proved.get(number))
            if first <= self._forgotten:
                return None
            place = bisect_left(self._numbers, first)
            if place < len(self._numbers) and self._numbers[place] <= last:
                # Messages that are still to come have larger numbers.
                return Answer(question.nonce, self._proved[self._numbers[place]])
            return Answer(question.nonce, None) if self._passed >= last else None

    def _last_of(self, epoch: int) -> int:
        place = bisect_right(self._numbers, (epoch, NUMBER_LAST))
        of, number = self._numbers[place - 1] if place else (0, 0)
        return number if of == epoch else 0


class Replica:
    """Asks other replicas for missing messages, and applies all messages in order."""

    def __init__(self, member: Member, own: str, others: list[str]) -> None:
        self.member, self.others = member, set(others)
        self.counter = Counter()
        self.history = History()
        self.epoch = 0
        # Bounded, so that answers for which nobody waits do not fill the memory.
        self.answers: queue.Queue[tuple[str, Answer]] = queue.Queue(ANSWERS_MAX)
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((own, REPAIR_PORT))
        threading.Thread(target=self.serve_others, daemon=True).start()

    def run(self) -> None:
        """Handles events for ever."""
        for event in self.member:
            self.take(event)

    def take(self, event: Event) -> None:
        """Handles an event. Before a new epoch's first event, repairs the old epoch's end."""
        if not isinstance(event, Message | DropNotification):
            sys.exit(f"the sequencer equivocates: {event}")
        first = event.sequence if isinstance(event, Message) else event.first
        if self.epoch == 0:
            self.history.begin((event.epoch, first))
        if event.epoch > self.epoch:
            self.history.pass_by((event.epoch, 0))
            if self.epoch:
                self.finish_epoch(self.epoch)
            self.epoch = event.epoch
        if isinstance(event, Message):
            self.settle(Proved((event.epoch, first), event.payload, event.certificate))
        else:
            self.history.pass_by((event.epoch, event.last))
            self.repair(event.epoch, first, event.last)

    def finish_epoch(self, epoch: int) -> None:
        """Asks others for the last number of a finished epoch, and gets missing messages."""
        ends = self.ask(epoch, 1, NUMBER_LAST, wants_last=True)
        last = max((end.number[1] for end in ends if end is not None), default=0)
        own = self.history.last_of(epoch)
        if own < last:
            self.repair(epoch, own + 1, last)

    def repair(self, epoch: int, first: int, last: int) -> None:
        """Gets missing messages from others; skips numbers that all missed, maybe billions."""
        while first <= last:
            found = [it for it in self.ask(epoch, first, last) if it is not None]
            proved = min(found, key=lambda it: it.number, default=None)
            end = last if proved is None else proved.number[1] - 1
            if first <= end:
                print(f"skipped ({epoch}, {first}) to {end}", flush=True)
            if proved is not None:
                self.settle(proved)
                print(f"repaired {proved.number}", flush=True)
            first = end + 2

    def settle(self, proved: Proved) -> None:
        """Applies a message's command and answers its client; ignores any other message."""
        self.history.add(proved)
        self.history.pass_by(proved.number)
        epoch, number = proved.number
        command = Command.parse(proved.message)
        if command is None:
            print(f"{epoch} {number} is no command: {proved.message[:50]!r}", flush=True)
            return
        answer = self.counter.apply(command)
        words = f"{command.client} {command.request} {command.add}"
        print(f"{epoch} {number} {words} = {self.counter.value}", flush=True)
        with contextlib.suppress(OSError):  # A client that cannot be reached asks again.
            self.socket.sendto(answer.encode(), (command.host, command.port))

    def ask(
        self, epoch: int, first: int, last: int, *, wants_last: bool = False
    ) -> list[Proved | None]:
        """Asks until all others have answered, or one has shown the message with number `first`."""
        nonce = secrets.token_hex(16)
        question = Question(nonce, epoch, first, last, wants_last)
        answers: dict[str, Proved | None] = {}
        while len(answers) < len(self.others):
            for other in self.others - answers.keys():
                with contextlib.suppress(OSError):  # The loop asks again.
                    self.socket.sendto(question.to_bytes(), (other, REPAIR_PORT))
            until = time.monotonic() + ASK_EVERY_S
            while (left := until - time.monotonic()) > 0 and len(answers) < len(self.others):
                try:
                    who, answer = self.answers.get(timeout=left)
                except queue.Empty:
                    break
                if answer.nonce != nonce:
                    continue
                proved = answer.proved
                # A message without a valid certificate is no answer: its sender may be lying.
                if proved is None or is_proved(self.member.verify, proved, question):
                    answers[who] = proved
                    if proved is not None and not wants_last and proved.number == (epoch, first):
                        return [proved]
        return list(answers.values())

    def serve_others(self) -> None:
        """Answers the questions whose answer is certain. Other questions will be asked again."""
        while True:
            datagram, (who, port) = self.socket.recvfrom(65535)
            if who not in self.others or port != REPAIR_PORT:
                continue
            said = parse(datagram)
            if isinstance(said, Answer):
                with contextlib.suppress(queue.Full):
                    self.answers.put_nowait((who, said))
            elif isinstance(said, Question):
                answer = self.history.answer(said)
                if answer is not None:
                    with contextlib.suppress(OSError):  # The other replica asks again.
                        self.socket.sendto(self.newest(answer).to_bytes(), (who, port))

    def newest(self, answer: Answer) -> Answer:
        """The same answer with the newest certificate, which grows after the message's arrival."""
        proved = answer.proved
        if proved is None:
            return answer
        message = Message(*proved.number, proved.message, proved.certificate)
        return replace(answer, proved=replace(proved, certificate=self.member.certificate(message)))


def is_proved(verify: Callable[[bytes, bytes], bool], proved: Proved, question: Question) -> bool:
    """Whether this member's key confirms a message with a number that was asked for.

    A certificate is valid only for the number in it, so that number is compared, too.
    """
    epoch, number = proved.number
    if epoch != question.epoch or not question.first <= number <= question.last:
        return False
    try:
        is_of_number = proved_number(proved.certificate) == proved.number
        return is_of_number and verify(proved.certificate, proved.message)
    except Error:  # The bytes are no certificate.
        return False


def main() -> None:
    """Joins the group, and runs until the process is killed."""
    member = Member.join(sys.argv[1])
    print("joined", flush=True)
    Replica(member, sys.argv[2], sys.argv[3:]).run()


if __name__ == "__main__":
    main()
