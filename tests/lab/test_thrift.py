"""`lab.rows.thrift` writes and reads Thrift's binary protocol exactly as it is specified."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from lab.process import ChildError
from lab.rows.thrift import LIST, STRING, Client, Value, binary, i32, i64, list_of, structure

REPLY = bytes.fromhex("80010002 00000003 6d3a66 00000000")
"""The head of a message: version 1, a reply, the method "m:f", sequence number 0."""
Ask = Callable[[bytes, tuple[Value, ...]], tuple[bytes, object]]


@pytest.fixture
def ask() -> Iterator[Ask]:
    """A function that calls a server's method `m:f` and returns what the server got, and the
    result."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def call(answer: bytes, arguments: tuple[Value, ...]) -> tuple[bytes, object]:
            heard: list[bytes] = []

            def serve() -> None:
                connection, _ = server.accept()
                with connection:
                    heard.append(connection.recv(4096))
                    connection.sendall(answer)

            thread = threading.Thread(target=serve)
            thread.start()
            try:
                with Client(server.getsockname(), 5.0) as client:
                    result = client.call("m:f", *arguments)
            finally:
                thread.join()
            return heard[0], result

        yield call


def test_a_call_is_a_message_and_a_structure_of_arguments(ask: Ask) -> None:
    heard, result = ask(REPLY + b"\0", (i32(1), binary("ab"), i64(-1)))
    assert heard.hex(" ", 4) == bytes.fromhex(
        "80010001 00000003 6d3a66 00000000"
        "08 0001 00000001"
        "0b 0002 00000002 6162"
        "0a 0003 ffffffffffffffff"
        "00"
    ).hex(" ", 4)
    assert result is None


def test_lists_and_structures_are_nested() -> None:
    nested = list_of(STRING, [binary(b"\1"), binary(b"")])
    assert nested.kind == LIST
    assert structure({7: nested}).data.hex() == "0f0007" + "0b0000000200000001010000000000"


def test_the_result_is_field_zero(ask: Ask) -> None:
    assert ask(REPLY + bytes.fromhex("08 0000 0000002a 00"), ())[1] == 42


def test_a_refusal_is_an_error_that_says_what_was_refused(ask: Ask) -> None:
    with pytest.raises(ChildError, match=r"m:f was refused: \{1: \{1: 17\}\}"):
        ask(REPLY + bytes.fromhex("0c 0001 08 0001 00000011 00 00"), ())


def test_an_answer_that_ends_early_is_an_error(ask: Ask) -> None:
    with pytest.raises(ChildError, match="ended within an answer"):
        ask(REPLY[:-1], ())
