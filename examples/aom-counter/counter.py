"""The counter that is replicated, and the datagrams between replicas. No I/O.

Requests and datagrams come from anybody: each function takes any bytes, and malformed ones change
nothing.
"""

import base64
import binascii
import json
import re
from collections import OrderedDict
from dataclasses import asdict, dataclass
from ipaddress import IPv4Address

Number = tuple[int, int]
"""The epoch, and the number in it that the sequencer gave a message."""

COMMAND_BYTES_MAX = 200
ADD_MAX = 10**9
CLIENTS_MAX = 1000
"""The number of clients whose last answer a replica keeps. All replicas forget the same client
first: the client whose last command is the oldest."""

EPOCH_LAST = NUMBER_LAST = 2**32 - 1
COMMAND = re.compile(
    r"(?P<client>[A-Za-z0-9-]{1,64}) (?P<request>[0-9]{1,18}) (?P<add>-?[0-9]{1,10})"
    r" (?P<host>[0-9.]{7,15}) (?P<port>[0-9]{1,5})",
    re.ASCII,
)
NONCE = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Command:
    """A client's request, and the address to which the answer goes."""

    client: str
    request: int
    add: int
    host: str
    port: int

    @classmethod
    def parse(cls, message: bytes) -> "Command | None":
        """Parses a message "CLIENT REQUEST ADD HOST PORT"; None if it is anything else."""
        if len(message) > COMMAND_BYTES_MAX:
            return None
        try:
            found = COMMAND.fullmatch(message.decode("ascii"))
            host = IPv4Address(found["host"]) if found else None
        except ValueError:
            return None
        if found is None or host is None:
            return None
        add, port = int(found["add"]), int(found["port"])
        if abs(add) > ADD_MAX or not 0 < port < 2**16:
            return None
        return cls(found["client"], int(found["request"]), add, str(host), port)


class Counter:
    """The sum. Replicas that apply the same commands in the same order have the same state."""

    def __init__(self) -> None:
        self.value = 0
        self.answered: OrderedDict[str, tuple[int, int]] = OrderedDict()

    def apply(self, command: Command) -> str:
        """Applies a command and returns the answer. A repeated command is only answered again."""
        last, answer = self.answered.pop(command.client, (-1, 0))
        if command.request > last:
            self.value += command.add
            last, answer = command.request, self.value
        self.answered[command.client] = last, answer
        if len(self.answered) > CLIENTS_MAX:
            self.answered.popitem(last=False)
        return f"{command.client} {last} {answer}"


@dataclass(frozen=True, slots=True)
class Question:
    """Asks for the first message from `first` to `last` of an epoch, or for the epoch's last one.

    The nonce is a random number, so that only somebody who has seen the question can answer it.
    """

    nonce: str
    epoch: int
    first: int
    last: int
    wants_last: bool

    def to_bytes(self) -> bytes:
        """Encodes the question for a datagram."""
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class Proved:
    """A message and its certificate from another replica, which the reader must still verify."""

    number: Number
    message: bytes
    certificate: bytes


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the question with this nonce.

    Without `proved`, the numbers that were asked for have no message.
    """

    nonce: str
    proved: Proved | None

    def to_bytes(self) -> bytes:
        """Encodes the answer for a datagram."""
        document: dict[str, object] = {"answer": self.nonce}
        if self.proved is not None:
            document["number"] = self.proved.number
            document["message"] = base64.b64encode(self.proved.message).decode()
            document["certificate"] = base64.b64encode(self.proved.certificate).decode()
        return json.dumps(document).encode()


def parse(datagram: bytes) -> Question | Answer | None:
    """Decodes another replica's datagram; None if it is neither question nor answer."""
    try:
        document = json.loads(datagram)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict):
        return None
    return _answer(document) if "answer" in document else _question(document)


def _question(document: dict[str, object]) -> Question | None:
    nonce, wants_last = _nonce(document.get("nonce")), document.get("wants_last")
    epoch = _integer(document.get("epoch"), EPOCH_LAST)
    first = _integer(document.get("first"), NUMBER_LAST)
    last = _integer(document.get("last"), NUMBER_LAST)
    if nonce is None or epoch is None or first is None or last is None:
        return None
    if not isinstance(wants_last, bool) or first > last:
        return None
    return Question(nonce, epoch, first, last, wants_last)


def _answer(document: dict[str, object]) -> Answer | None:
    nonce = _nonce(document["answer"])
    if nonce is None:
        return None
    if document.keys() == {"answer"}:
        return Answer(nonce, None)
    number = document.get("number")
    if not isinstance(number, list) or len(number) != 2:
        return None
    epoch, sequence = _integer(number[0], EPOCH_LAST), _integer(number[1], NUMBER_LAST)
    message, certificate = _bytes(document.get("message")), _bytes(document.get("certificate"))
    if epoch is None or sequence is None or message is None or certificate is None:
        return None
    return Answer(nonce, Proved((epoch, sequence), message, certificate))


def _nonce(value: object) -> str | None:
    return value if isinstance(value, str) and NONCE.fullmatch(value) else None


def _integer(value: object, most: int) -> int | None:
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return value if is_integer and isinstance(value, int) and 0 < value <= most else None


def _bytes(value: object) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return None
