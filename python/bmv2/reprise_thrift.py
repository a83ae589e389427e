"""Implements BMv2's Thrift services without Apache Thrift, from tables of types and calls.

Each line of a table declares a type or a call. Fields are numbered from 1 in their order. `declare`
makes the same classes as Thrift's compiler, with the same names. `client_class` makes a client with
one method per call. The module implements only the part of Thrift that BMv2's interface needs.
"""

import socket
import struct
from collections.abc import Callable, Iterator

VERSION = 0x80010000
CALL, REPLY, EXCEPTION = 1, 2, 3
STOP = 0

# The maximum length that an answer may state. A wrong length then causes an error instead of
# exhausted memory.
ELEMENTS_MAX = 1 << 26


class Refused(Exception):
    """The server refused a call for a reason that is not among the call's declared exceptions."""

    def __init__(self, kind: int, message: str) -> None:
        super().__init__(message)
        self.type = kind
        self.message = message


class Broken(Exception):
    """The connection ended, or the received bytes do not conform to the protocol."""


class Record:
    """A structure. The value of an attribute is None if the field is not set."""

    FIELDS: tuple = ()

    def __init__(self, *values: object, **named: object) -> None:
        names = [name for name, _ in self.FIELDS]
        if len(values) > len(names):
            raise TypeError(f"{type(self).__name__} has {len(names)} fields")
        for name, value in zip(names, values, strict=False):
            setattr(self, name, value)
        for name in names[len(values) :]:
            setattr(self, name, named.pop(name, None))
        if named:
            raise TypeError(f"{type(self).__name__} has no {', '.join(named)}")

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, _ in self.FIELDS)
        return f"{type(self).__name__}({shown})"

    # The text is the same as from Thrift's compiler. The default text of an exception would show
    # only its arguments, of which there may be none.
    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.__dict__ == other.__dict__

    __hash__ = None


class Connection:
    """A connection to a switch. Several clients may share a connection."""

    def __init__(self, host: str, port: int) -> None:
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.incoming = self.socket.makefile("rb")
        self.number = 0

    def close(self) -> None:
        """Closes the connection."""
        self.incoming.close()
        self.socket.close()

    def read(self, n_bytes: int) -> bytes:
        """Reads this many bytes."""
        found = self.incoming.read(n_bytes)
        if len(found) < n_bytes:
            raise Broken("the switch closed the connection")
        return found


class Channel:
    """A service on a connection."""

    def __init__(self, connection: Connection, service: str) -> None:
        self.connection = connection
        self.service = service

    def call(self, name: str, fields: bytes) -> Iterator[tuple[int, object]]:
        """Makes a call and returns the fields of the answer."""
        connection = self.connection
        connection.number += 1
        full = f"{self.service}:{name}".encode()
        head = struct.pack("!Ii", VERSION | CALL, len(full)) + full
        connection.socket.sendall(head + struct.pack("!i", connection.number) + fields)
        version, length = struct.unpack("!Ii", connection.read(8))
        if version & 0xFFFF0000 != VERSION or not 0 <= length <= ELEMENTS_MAX:
            raise Broken("the answer does not conform to Thrift's binary protocol")
        connection.read(length)
        (number,) = struct.unpack("!i", connection.read(4))
        answer = dict(read_fields(connection.read))
        if version & 0xFF == EXCEPTION:
            message = answer.get(1, b"")
            raise Refused(answer.get(2, 0), message.decode(errors="replace"))
        if number != connection.number:
            raise Broken("the answer belongs to another call")
        return answer


# For each simple type, its number in the protocol and its format for `struct`.
NUMBERS = {"bool": (2, "!?"), "byte": (3, "!b"), "double": (4, "!d"), "i16": (6, "!h")}
NUMBERS |= {"i32": (8, "!i"), "i64": (10, "!q")}
BYTES, STRUCT, MAP, LIST = 11, 12, 13, 15


def kind_of(of: object) -> int:
    """Returns the number that the protocol gives to a type."""
    if isinstance(of, str):
        return NUMBERS[of][0] if of in NUMBERS else BYTES
    if isinstance(of, tuple):
        return LIST if of[0] == "list" else MAP
    return STRUCT


def written(of: object, value: object) -> bytes:
    """Encodes a value in the binary protocol."""
    if isinstance(of, str):
        if of in NUMBERS:
            packed = value if of in ("double", "bool") else int(value)
            return struct.pack(NUMBERS[of][1], packed)
        text = value.encode() if isinstance(value, str) else bytes(value)
        return struct.pack("!i", len(text)) + text
    if isinstance(of, tuple) and of[0] == "list":
        head = struct.pack("!bi", kind_of(of[1]), len(value))
        return head + b"".join(written(of[1], one) for one in value)
    if isinstance(of, tuple):
        head = struct.pack("!bbi", kind_of(of[1]), kind_of(of[2]), len(value))
        pairs = value.items()
        return head + b"".join(written(of[1], key) + written(of[2], it) for key, it in pairs)
    values = [getattr(value, name) for name, _ in of.FIELDS]
    return written_fields([kind for _, kind in of.FIELDS], values)


def written_fields(types: list, values: list) -> bytes:
    """Encodes fields, numbered from 1, in the binary protocol. A field that is None is left out."""
    out = b""
    for number, (of, value) in enumerate(zip(types, values, strict=True), 1):
        if value is not None:
            out += struct.pack("!bh", kind_of(of), number) + written(of, value)
    return out + bytes([STOP])


Read = Callable[[int], bytes]


def read_fields(read: Read) -> Iterator[tuple[int, object]]:
    """Reads a structure. Yields the number and the value of each field."""
    while (kind := read(1)[0]) != STOP:
        (number,) = struct.unpack("!h", read(2))
        yield number, read_value(kind, read)


def n_elements(read: Read) -> int:
    """Reads a length."""
    (found,) = struct.unpack("!i", read(4))
    if not 0 <= found <= ELEMENTS_MAX:
        raise Broken(f"the answer claims a length of {found}")
    return found


def read_value(kind: int, read: Read) -> object:
    """Reads a value of the type with this number. A structure becomes a dictionary."""
    for number, shape in NUMBERS.values():
        if number == kind:
            return struct.unpack(shape, read(struct.calcsize(shape)))[0]
    if kind == BYTES:
        return read(n_elements(read))
    if kind == STRUCT:
        return dict(read_fields(read))
    if kind == LIST:
        of = read(1)[0]
        return [read_value(of, read) for _ in range(n_elements(read))]
    if kind == MAP:
        keys, values = read(2)
        n = n_elements(read)
        return {read_value(keys, read): read_value(values, read) for _ in range(n)}
    raise Broken(f"the answer has a value of the unknown type {kind}")


def shaped(of: object, value: object) -> object:
    """Converts a value from `read_value` to its declared type, for example a structure."""
    if of == "string":
        return value.decode(errors="replace")
    if isinstance(of, str):
        return value
    if isinstance(of, tuple) and of[0] == "list":
        return [shaped(of[1], one) for one in value]
    if isinstance(of, tuple):
        return {shaped(of[1], key): shaped(of[2], it) for key, it in value.items()}
    made = of()
    for number, (name, kind) in enumerate(of.FIELDS, 1):
        if number in value:
            setattr(made, name, shaped(kind, value[number]))
    return made


def parsed_type(text: str, known: dict) -> object:
    """Parses `list<T>`, `map<K,V>`, a simple type, or the name of a structure or enumeration."""
    if text.startswith("list<"):
        return ("list", parsed_type(text[5:-1], known))
    if text.startswith("map<"):
        keys, values = text[4:-1].split(",")
        return ("map", parsed_type(keys, known), parsed_type(values, known))
    found = known.get(text, text)
    # An enumeration is sent as a number.
    return "i32" if isinstance(found, type) and not hasattr(found, "FIELDS") else found


def enumeration(name: str, words: list[str]) -> type:
    """Makes a class with a number for each name, and with maps between names and numbers."""
    numbers = {word.split("=")[0]: int(word.split("=")[1]) for word in words}
    names = {number: word for word, number in numbers.items()}
    return type(name, (), {**numbers, "_NAMES_TO_VALUES": numbers, "_VALUES_TO_NAMES": names})


def declare(table: str) -> dict[str, type]:
    """Makes the classes that a table declares.

    A line is `enum NAME A=1 B=2`, `struct NAME field:TYPE ...` or `exception NAME ...`.
    """
    known: dict[str, type] = {}
    for line in filter(None, map(str.strip, table.splitlines())):
        what, name, *words = line.split()
        if what == "enum":
            known[name] = enumeration(name, words)
            continue
        pairs = (word.split(":", 1) for word in words)
        fields = tuple((field, parsed_type(of, known)) for field, of in pairs)
        bases = (Record, Exception) if what == "exception" else (Record,)
        members = {"FIELDS": fields}
        if what == "exception":
            members["__hash__"] = Exception.__hash__
        known[name] = type(name, bases, members)
    return known


def method(
    name: str, words: list[str], result: object, error: type | None, known: dict
) -> Callable:
    """Makes a client's method for a call."""
    pairs = [word.split(":", 1) for word in words]
    names = [field for field, _ in pairs]
    types = [parsed_type(of, known) for _, of in pairs]

    def call(self: "Client", *values: object, **named: object) -> object:
        if len(values) > len(names) or set(named) - set(names[len(values) :]):
            raise TypeError(f"{name} takes {', '.join(names) or 'no arguments'}")
        given = [*values, *(named.get(field) for field in names[len(values) :])]
        answer = self.channel.call(name, written_fields(types, given))
        if 0 in answer and result is not None:
            return shaped(result, answer[0])
        if 1 in answer and error is not None:
            raise shaped(error, answer[1])
        if result is not None:
            raise Refused(5, f"{name}: the answer has no result")
        return None

    call.__name__ = name
    call.__doc__ = f"{name}({', '.join(f'{field}: {of}' for field, of in pairs)})"
    return call


class Client:
    """A client of a service, with a method for each call."""

    def __init__(self, channel: Channel, _other: Channel | None = None) -> None:
        self.channel = channel


def client_class(table: str, known: dict) -> type:
    """Makes the client class for a table of calls.

    A line is `RESULT NAME argument:TYPE ... !EXCEPTION`.
    """
    members = {}
    for line in filter(None, map(str.strip, table.splitlines())):
        result, name, *words = line.split()
        errors = [known[word[1:]] for word in words if word.startswith("!")]
        words = [word for word in words if not word.startswith("!")]
        result = None if result == "void" else parsed_type(result, known)
        members[name] = method(name, words, result, errors[0] if errors else None, known)
    return type("Client", (Client,), members)
