"""Calls a Thrift service over a socket, with the parts of the binary protocol that BMv2 needs.

The specification is thrift-binary-protocol.md of Apache Thrift. A method's name is
"service:method", because services share a port.
"""

import socket
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lab.process import ChildError

VERSION = 0x80010000
CALL, EXCEPTION = 1, 3
STOP, BOOL, BYTE, DOUBLE, I16, I32, I64, STRING, STRUCT, MAP, SET, LIST = (
    *(0, 2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15),
)
_FORMATS = {BOOL: "!b", BYTE: "!b", DOUBLE: "!d", I16: "!h", I32: "!i", I64: "!q"}


@dataclass(frozen=True, slots=True)
class Value:
    """A value to send: its Thrift type and its bytes."""

    kind: int
    data: bytes


def i32(number: int) -> Value:
    return Value(I32, struct.pack("!i", number))


def i64(number: int) -> Value:
    return Value(I64, struct.pack("!q", number))


def binary(data: bytes | str) -> Value:
    raw = data.encode() if isinstance(data, str) else data
    return Value(STRING, struct.pack("!i", len(raw)) + raw)


def list_of(kind: int, values: Sequence[Value]) -> Value:
    items = b"".join(value.data for value in values)
    return Value(LIST, struct.pack("!bi", kind, len(values)) + items)


def structure(fields: Mapping[int, Value]) -> Value:
    parts = [struct.pack("!bh", one.kind, number) + one.data for number, one in fields.items()]
    return Value(STRUCT, b"".join(parts) + bytes([STOP]))


class Client:
    def __init__(self, address: tuple[str, int], timeout_s: float) -> None:
        self._socket = socket.create_connection(address, timeout_s)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def call(self, method: str, *arguments: Value) -> Any:
        """Calls `service:method`; returns its result, or None.

        Raises `ChildError` if the service refuses the call.
        """
        head = struct.pack("!I", VERSION | CALL) + binary(method).data + struct.pack("!i", 0)
        self._socket.sendall(head + structure(dict(enumerate(arguments, start=1))).data)
        kind = self._unpack("!I") & 0xFF
        self._read(STRING)
        self._unpack("!i")
        fields = self._read(STRUCT)
        refusal = {number: value for number, value in fields.items() if number != 0}
        if kind == EXCEPTION or refusal:
            raise ChildError(f"{method} was refused: {fields}")
        return fields.get(0)

    def _unpack(self, form: str) -> Any:
        n = struct.calcsize(form)
        data = self._file.read(n)
        if len(data) != n:
            raise ChildError("the Thrift connection ended within an answer")
        return struct.unpack(form, data)[0]

    def _read(self, kind: int) -> Any:
        if kind in _FORMATS:
            return self._unpack(_FORMATS[kind])
        if kind == STRING:
            return self._file.read(self._unpack("!i"))
        if kind == STRUCT:
            fields = {}
            while (field_kind := self._unpack("!b")) != STOP:
                number = self._unpack("!h")
                fields[number] = self._read(field_kind)
            return fields
        if kind in (LIST, SET):
            item_kind = self._unpack("!b")
            return [self._read(item_kind) for _ in range(self._unpack("!i"))]
        raise ChildError(f"an answer has type {kind}, which nothing here needs")
