"""The example in docs/aom.md: four replicas of a counter, two clients."""

import importlib
import json
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from aom import UDP_PORT, request

from lab.process import REPOSITORY, Child
from tests.e2e.aom_group import Client
from tests.e2e.ordered import GROUP_IP, Ordered, ip_of, ordered

EXAMPLE = REPOSITORY / "examples" / "aom-counter"
REPLICAS = (1, 2, 3, 4)
CLIENTS = (5, 6)
N_COMMANDS = 1500
REPAIR_PORT = 60006
PATIENCE_S = 120.0


@pytest.fixture
def whole(namespaces: None, logs: Path) -> Iterator[Ordered]:
    with ordered(logs, len(REPLICAS) + len(CLIENTS)) as whole:
        for host in REPLICAS:
            file = whole.add_member(host)
            others = [ip_of(other) for other in REPLICAS if other != host]
            argv = whole.python(EXAMPLE / "replica.py", str(file), ip_of(host), *others)
            whole.start(f"replica{host}", argv, host).wait_for_line("joined", 120.0)
        yield whole


def start_client(whole: Ordered, host: int, count: int) -> Child:
    words = (GROUP_IP, ip_of(host), f"c{host}", str(count), *map(ip_of, REPLICAS))
    return whole.start(f"client{host}", whole.python(EXAMPLE / "client.py", *words), host)


def applied(whole: Ordered, n_commands: int, clients: Sequence[int] = CLIENTS) -> list[list[str]]:
    """Waits until each replica has `n_commands` of each client; returns the applied commands."""
    lines = []
    for host in REPLICAS:
        replica = whole.processes[f"replica{host}"]
        for client in clients:
            # This is the client's last command.
            wait_for(replica, f" c{client} {n_commands - 1} ")
        lines.append([line for line in replica.log_text().splitlines() if " = " in line])
    return lines


def wait_for(replica: Child, text: str) -> None:
    for line in replica.lines(PATIENCE_S):
        if text in line:
            return
    raise replica.fail(f"no line with {text!r}")


def distinct(lines: list[str]) -> list[str]:
    """The different commands in these lines: clients may send a command again."""
    return list(dict.fromkeys(" ".join(line.split()[2:4]) for line in lines))


def test_replicas_agree_over_losses_and_an_epoch(
    whole: Ordered, capsys: pytest.CaptureFixture[str]
) -> None:
    clients = [start_client(whole, host, N_COMMANDS) for host in CLIENTS]
    epoch = whole.group()["epoch"]
    whole.processes["replica1"].wait_for_line(f"{epoch} 20 ", 120.0)
    # One replica loses all requests for a moment, later all replicas do.
    whole.lose(3, senders=CLIENTS, for_s=0.05)
    whole.processes["replica3"].wait_for_line("repaired", 120.0)
    epoch = whole.aom("epoch", "advance", "counter")["group"]["epoch"]
    whole.processes["replica1"].wait_for_line(f"{epoch} 20 ", 120.0)
    whole.lose(*REPLICAS, senders=CLIENTS, for_s=0.3)
    for host in REPLICAS:
        whole.processes[f"replica{host}"].wait_for_line("skipped", 120.0)
    for client in clients:
        client.expect_success(60.0)
    lines = applied(whole, N_COMMANDS)
    told = {f"replica{host}": whole.processes[f"replica{host}"].log_text() for host in REPLICAS}
    with capsys.disabled():
        print(
            *(
                f"\n{name}: {text.count('repaired')} repaired, {text.count('skipped')} skipped"
                for name, text in told.items()
            )
        )
    assert all(one == lines[0] for one in lines[1:])
    assert len(distinct(lines[0])) == 2 * N_COMMANDS
    assert lines[0][-1].endswith(f"= {2 * N_COMMANDS}")


NO_COMMANDS = [
    b"",
    b"x",
    b"\xff\xfe",
    b"c5 0 1",
    b"c5 0 1 10.0.0.5 60000 more",
    b"c5 zero 1 10.0.0.5 60000",
    b"c5 0 one 10.0.0.5 60000",
    b"c5 0 1 nobody.invalid 60000",
    b"c5 0 1 10.0.0.256 60000",
    b"c5 0 1 10.0.0.5 0",
    b"c5 0 1 10.0.0.5 65536",
    b"c5 -1 1 10.0.0.5 60000",
    b"c5 0 " + b"9" * 150 + b" 10.0.0.5 60000",
    b"c5 " + b"9" * 150 + b" 1 10.0.0.5 60000",
    b"c5 0 1 10.0.0.5 60000\n",
    b"c5\n4 1 0 1 10.0.0.5 60000",
    b"c5 0 1 \xd9\xa1.0.0.5 60000",
    b"c" * 5000,
]
NONCE = "0" * 32
NO_DATAGRAMS = [
    b"",
    b"no json",
    b"\xff",
    b"null",
    b"1",
    b"[]",
    b"[[]]",
    b"[" * 60000,
    b"{}",
    b'{"number": null}',
    b'{"number": [4]}',
    b'{"end of": "x"}',
    b'{"end of": 1e999}',
    b'["{}", ["00"]]',
    *(
        json.dumps(document).encode()
        for document in [
            {"answer": None},
            {"answer": "short"},
            {"answer": NONCE, "number": [1]},
            {"answer": NONCE, "number": [1, 2], "message": "?", "certificate": ""},
            {"answer": NONCE, "number": [1, 2], "message": "", "certificate": 3},
            {"answer": NONCE, "number": [True, 2], "message": "", "certificate": ""},
            {"answer": NONCE, "number": [1, 2**32], "message": "", "certificate": ""},
            {"nonce": NONCE, "epoch": 1, "first": 1, "last": 2},
            {"nonce": NONCE, "epoch": 1, "first": 2, "last": 1, "wants_last": False},
            {"nonce": NONCE, "epoch": 1, "first": 0, "last": 1, "wants_last": False},
            {"nonce": NONCE, "epoch": 1, "first": 1, "last": 2**32, "wants_last": False},
            {"nonce": NONCE, "epoch": 1.5, "first": 1, "last": 2, "wants_last": False},
            {"nonce": 1, "epoch": 1, "first": 1, "last": 2, "wants_last": False},
            {"nonce": NONCE, "epoch": {}, "first": [], "last": "", "wants_last": 0},
        ]
    ),
]


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that imports a module of the example by its name."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    return importlib.import_module


@pytest.fixture
def addresses() -> Iterator[Any]:
    """A function that binds a UDP socket to a loopback address, which stands for a host."""
    with ExitStack() as stack:

        def bind(ip: str, port: int) -> socket.socket:
            bound = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            stack.callback(bound.close)
            bound.settimeout(PATIENCE_S)
            bound.bind((ip, port))
            return bound

        yield bind


@pytest.mark.parametrize("message", NO_COMMANDS, ids=range(len(NO_COMMANDS)))
def test_what_is_no_command_is_read_as_none(example: Any, message: bytes) -> None:
    assert example("counter").Command.parse(message) is None


def test_a_command_is_applied_once_and_answered_each_time(example: Any) -> None:
    counter = example("counter")
    replicated = counter.Counter()
    first = counter.Command.parse(b"c5 0 7 10.0.0.5 60000")
    assert (first.host, first.port) == ("10.0.0.5", 60000)
    assert replicated.apply(first) == replicated.apply(first) == "c5 0 7"
    second = counter.Command.parse(b"c5 1 -3 10.0.0.5 60000")
    assert replicated.apply(second) == replicated.apply(first) == "c5 1 4"


def test_clients_of_any_number_fill_no_memory(example: Any) -> None:
    counter = example("counter")
    replicated = counter.Counter()
    for number in range(3 * counter.CLIENTS_MAX):
        replicated.apply(counter.Command(f"c{number}", 0, 1, "10.0.0.5", 60000))
    assert len(replicated.answered) == counter.CLIENTS_MAX


@pytest.mark.parametrize("datagram", NO_DATAGRAMS, ids=range(len(NO_DATAGRAMS)))
def test_what_is_neither_question_nor_answer_is_read_as_none(example: Any, datagram: bytes) -> None:
    assert example("counter").parse(datagram) is None


def test_questions_and_answers_are_read_as_they_were_written(example: Any) -> None:
    counter = example("counter")
    question = counter.Question(NONCE, 2**32 - 1, 1, 2**32 - 1, True)
    proved = counter.Proved((3, 4), b"\x00\xff", b"certificate")
    for said in (question, counter.Answer(NONCE, None), counter.Answer(NONCE, proved)):
        assert counter.parse(said.to_bytes()) == said


class TrustingMember:
    """A member that takes every certificate which ends with "right" as proof of one fixed text."""

    def verify(self, certificate: bytes, message: bytes) -> bool:
        return certificate.endswith(b"right") and message == b"c5 0 7 127.0.0.9 60000"


def certificate_of(epoch: int, number: int, end: bytes) -> bytes:
    """Makes a certificate that is as long as one with a signature.

    `end` decides whether the member accepts the certificate.
    """
    head = bytes([2, 0, 1]) + epoch.to_bytes(8, "big") + number.to_bytes(4, "big")
    return head + bytes(96 - len(end)) + end


def test_a_replica_counts_no_unknown_address_and_believes_no_certificate_of_another_number(
    example: Any, addresses: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    counter = example("counter")
    own, others = "127.0.0.31", ("127.0.0.32", "127.0.0.33", "127.0.0.34")
    replica = example("replica").Replica(TrustingMember(), own, list(others))
    place = (own, REPAIR_PORT)
    known = [addresses(ip, REPAIR_PORT) for ip in others]
    strangers = [addresses(f"127.0.0.{n}", REPAIR_PORT) for n in (35, 36, 37)]
    # These sockets stand for other programs on the known hosts.
    strangers += [addresses(ip, 60099) for ip in others]
    # Billions of numbers are missing. A member would report them as one event.
    repair = threading.Thread(target=replica.repair, args=(4, 7, 2**32 - 2))
    repair.start()
    question = counter.parse(known[0].recv(65535))
    assert (question.epoch, question.first, question.last) == (4, 7, 2**32 - 2)
    nothing = counter.Answer(question.nonce, None).to_bytes()
    for stranger in strangers:
        stranger.sendto(nothing, place)
    text = b"c5 0 7 127.0.0.9 60000"
    wrong = [
        # A number that was not asked for; a certificate of another number; a forged certificate; no
        # certificate.
        counter.Proved((4, 6), text, certificate_of(4, 6, b"right")),
        counter.Proved((4, 8), text, certificate_of(4, 6, b"right")),
        counter.Proved((4, 7), text, certificate_of(4, 7, b"forged")),
        counter.Proved((4, 7), text, b"right"),
    ]
    for one in known:
        for proved in wrong:
            one.sendto(counter.Answer(question.nonce, proved).to_bytes(), place)
        for datagram in NO_DATAGRAMS:
            one.sendto(datagram, place)
    right = counter.Proved((4, 1000), text, certificate_of(4, 1000, b"right"))
    known[0].sendto(nothing, place)
    known[1].sendto(counter.Answer(question.nonce, right).to_bytes(), place)
    known[2].sendto(nothing, place)
    # All replicas have missed the numbers after 1000.
    behind = question
    while behind.first != 1001:
        behind = counter.parse(known[2].recv(65535))
    nothing = counter.Answer(behind.nonce, None).to_bytes()
    for one in known:
        one.sendto(nothing, place)
    repair.join(PATIENCE_S)
    assert not repair.is_alive()
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        "skipped (4, 7) to 999",
        "4 1000 c5 0 7 = 7",
        "repaired (4, 1000)",
        f"skipped (4, 1001) to {2**32 - 2}",
    ]


def test_a_client_counts_no_unknown_address_as_a_replica(example: Any, addresses: Any) -> None:
    client = example("client")
    replicas = [addresses(f"127.0.0.{n}", REPAIR_PORT) for n in (41, 42, 43, 44)]
    strangers = [addresses(f"127.0.0.{n}", REPAIR_PORT) for n in (45, 46, 47)]
    sequencer, asking = addresses("127.0.0.48", UDP_PORT), addresses("127.0.0.49", 0)
    found: list[str] = []
    known = {replica.getsockname() for replica in replicas}
    argv = (asking, b"c5 0 7 127.0.0.49 1", sequencer.getsockname(), known, 3)
    thread = threading.Thread(target=lambda: found.append(client.ask(*argv)))
    thread.start()
    sequencer.recv(65535)
    place = asking.getsockname()
    for stranger in strangers:
        stranger.sendto(b"c5 0 666", place)
    for replica in replicas:
        replica.sendto(b"\xff\xfe", place)
        replica.sendto(b"c5 0 7", place)
    thread.join(PATIENCE_S)
    assert found == ["c5 0 7"]


def test_replicas_go_on_beside_hostile_requests_and_datagrams(whole: Ordered) -> None:
    attacker = Client(whole, CLIENTS[1])
    client = start_client(whole, CLIENTS[0], 100)
    for round_ in range(5):
        for message in NO_COMMANDS:
            # The message is shortened, because the sequencer does not order a request that is
            # longer than a packet.
            attacker.send_to((GROUP_IP, UDP_PORT), request(message[:1000]))
        for host in REPLICAS:
            for datagram in NO_DATAGRAMS:
                attacker.send_to((ip_of(host), REPAIR_PORT), datagram)
        # In addition, a replica loses requests and must get them from the others.
        whole.lose(REPLICAS[round_ % len(REPLICAS)], senders=CLIENTS, for_s=0.02)
    client.expect_success(PATIENCE_S)
    # The client does not wait for a replica that lost the last numbers. Only a later number shows
    # that replica what it lacks. Five later requests are sent, since a request may be lost, too.
    for _ in range(5):
        attacker.send_to((GROUP_IP, UDP_PORT), request(NO_COMMANDS[0]))
        time.sleep(0.1)
    lines = applied(whole, 100, CLIENTS[:1])
    assert all(one == lines[0] for one in lines[1:])
    assert len(distinct(lines[0])) == 100
