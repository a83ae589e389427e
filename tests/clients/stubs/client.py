"""A P4Runtime client on the generated stubs: tests see and make all messages themselves."""

import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import grpc
from google.protobuf import text_format
from google.protobuf.message import Message
from google.rpc import code_pb2, status_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1.p4data_pb2 import P4Data
from p4.v1.p4runtime_pb2_grpc import P4RuntimeStub
from switch import COMPILER, DEVICE_ID, EVERY_ENTITY, PATIENCE_S

INSERT, MODIFY, DELETE = p4.Update.INSERT, p4.Update.MODIFY, p4.Update.DELETE
COMMIT = p4.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
INVALID_ARGUMENT = code_pb2.INVALID_ARGUMENT

OBJECTS = ("tables", "actions", "action_profiles", "counters", "direct_counters", "meters")
OBJECTS += ("direct_meters", "value_sets", "registers", "digests")


def has(message: type[Message], field: str) -> bool:
    """Whether these stubs have a field that a later version of P4Runtime has added."""
    return field in message.DESCRIPTOR.fields_by_name


@cache
def p4info(program: Path) -> p4info_pb2.P4Info:
    """A program's P4Info: compiled if the program's source is here, otherwise read from its text.

    Protobuf's implementation in Python does not know which fields of these stubs are maps, so
    it cannot read maps from a text.
    """
    source = program.with_suffix(".p4")
    if not source.exists():
        text = program.with_suffix(".p4info.txtpb").read_text()
        return text_format.Parse(text, p4info_pb2.P4Info())
    with TemporaryDirectory() as folder:
        compile_it = [COMPILER, "compile", "-o", folder, source]
        subprocess.run(compile_it, capture_output=True, check=True)
        binary = Path(folder, program.name).with_suffix(".p4info.bin").read_bytes()
    return ordered(p4info_pb2.P4Info.FromString(binary))


def ordered(found: p4info_pb2.P4Info) -> p4info_pb2.P4Info:
    """Returns the P4Info, after sorting the entries of maps that protobuf takes for lists."""
    if found.HasField("type_info") and hasattr(found.type_info.structs, "sort"):
        found.type_info.structs.sort(key=lambda entry: entry.key)
    return found


@cache
def config(program: Path = EVERY_ENTITY, cookie: int = 0) -> p4.ForwardingPipelineConfig:
    found = p4.ForwardingPipelineConfig(p4info=p4info(program))
    found.p4_device_config = program.with_suffix(".json").read_bytes()
    if cookie:
        found.cookie.cookie = cookie
    return found


@cache
def ids(program: Path = EVERY_ENTITY) -> dict[str, int]:
    """The ids of a program's objects by their aliases."""
    objects = (found for kind in OBJECTS for found in getattr(p4info(program), kind))
    return {found.preamble.alias: found.preamble.id for found in objects}


def packet_header(name: str, program: Path = EVERY_ENTITY) -> p4info_pb2.ControllerPacketMetadata:
    headers = p4info(program).controller_packet_metadata
    (found,) = (header for header in headers if header.preamble.alias == name)
    return found


def packet_out(payload: bytes, port: bytes = b"\3", program: Path = EVERY_ENTITY) -> p4.PacketOut:
    fields = {field.name: field.id for field in packet_header("packet_out", program).metadata}
    packet = p4.PacketOut(payload=payload)
    packet.metadata.add(metadata_id=fields["egress_port"], value=port)
    packet.metadata.add(metadata_id=fields["_pad"], value=b"\0")
    return packet


def election(number: int) -> p4.Uint128:
    return p4.Uint128(high=number >> 64, low=number & (2**64 - 1))


def entity(message: Message) -> p4.Entity:
    if isinstance(message, p4.Entity):
        return message
    if isinstance(message, p4.MulticastGroupEntry):
        message = p4.PacketReplicationEngineEntry(multicast_group_entry=message)
    if isinstance(message, p4.CloneSessionEntry):
        message = p4.PacketReplicationEngineEntry(clone_session_entry=message)
    for field in p4.Entity.DESCRIPTOR.fields:
        if field.message_type is message.DESCRIPTOR:
            return p4.Entity(**{field.name: message})
    raise ValueError(f"expected an entity, found {message}")


def update(kind: int, message: Message) -> p4.Update:
    return p4.Update(type=kind, entity=entity(message))


def codes(error: grpc.RpcError) -> list[int]:
    """The code of each update or entity, from the `p4.v1.Error`s in the status' details."""
    return [found.canonical_code for found in errors(error)]


def errors(error: grpc.RpcError) -> list[p4.Error]:
    """The `p4.v1.Error`s in the details of a status, which itself must be UNKNOWN."""
    assert error.code() == grpc.StatusCode.UNKNOWN, error
    (details,) = (v for k, v in error.trailing_metadata() if k == "grpc-status-details-bin")
    status = status_pb2.Status.FromString(details)
    assert (status.code, status.message) == (code_pb2.UNKNOWN, error.details())
    found = []
    for detail in status.details:
        one = p4.Error()
        assert detail.Unpack(one), detail.type_url
        found.append(one)
    return found


class Client:
    """A connection to the switch without a stream (`StreamChannel`)."""

    def __init__(self, address: str) -> None:
        self.device_id = DEVICE_ID
        options = [
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.max_receive_message_length", 2**26),
        ]
        self.channel = grpc.insecure_channel(address, options)
        self.stub = P4RuntimeStub(self.channel)
        self.role = ""
        self.election_id: p4.Uint128 | None = None

    def write(self, *updates: p4.Update, **fields: object) -> None:
        """Writes a batch. `fields` are further fields of the request."""
        request = p4.WriteRequest(**(self.sender() | {"updates": updates} | fields))
        self.stub.Write(request, timeout=PATIENCE_S)

    def sender(self) -> dict[str, object]:
        """The fields by which a write identifies its device, role and controller."""
        return {"device_id": self.device_id, "role": self.role, "election_id": self.election_id}

    def insert(self, *messages: Message) -> None:
        self.write(*(update(INSERT, message) for message in messages))

    def modify(self, *messages: Message) -> None:
        self.write(*(update(MODIFY, message) for message in messages))

    def delete(self, *messages: Message) -> None:
        self.write(*(update(DELETE, message) for message in messages))

    def refused(self, kind: int, message: Message) -> int:
        """Makes an update that must fail; returns its error's code."""
        (found,) = errors(error_of(self.write, update(kind, message)))
        assert found.message, found
        return found.canonical_code

    def responses(self, *messages: Message, **fields: object) -> Iterator[p4.ReadResponse]:
        """Yields the responses of a Read as they come."""
        asked = [entity(message) for message in messages]
        request = p4.ReadRequest(**({"device_id": self.device_id, "entities": asked} | fields))
        return self.stub.Read(request, timeout=PATIENCE_S)

    def read(self, *messages: Message, **fields: object) -> list[Message]:
        """Reads, and returns each entity that is found as a message of its own type."""
        found = [one for answer in self.responses(*messages, **fields) for one in answer.entities]
        return [unwrapped(one) for one in found]

    def set_pipeline(
        self, of: p4.ForwardingPipelineConfig | None = None, action: int = COMMIT, **fields: object
    ) -> None:
        """Sets a program. Without `of` the request has none: COMMIT uses the saved program."""
        request = self.sender() | {"action": action, "config": of} | fields
        request = p4.SetForwardingPipelineConfigRequest(**request)
        self.stub.SetForwardingPipelineConfig(request, timeout=PATIENCE_S)

    def get_pipeline(self, part: int = 0) -> p4.ForwardingPipelineConfig:
        asked = {"device_id": self.device_id, "response_type": part}
        request = p4.GetForwardingPipelineConfigRequest(**asked)
        found = self.stub.GetForwardingPipelineConfig(request, timeout=PATIENCE_S).config
        if found.HasField("p4info"):
            ordered(found.p4info)
        return found

    def close(self) -> None:
        self.channel.close()


def unwrapped(found: p4.Entity) -> Message:
    message = getattr(found, found.WhichOneof("entity"))
    if isinstance(message, p4.PacketReplicationEngineEntry):
        return getattr(message, message.WhichOneof("type"))
    return message


class Controller(Client):
    """A connection with a stream, on which the test sends and receives every message itself."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self._out: queue.SimpleQueue[p4.StreamMessageRequest | None] = queue.SimpleQueue()
        self._in: queue.SimpleQueue[p4.StreamMessageResponse | grpc.RpcError | None]
        self._in = queue.SimpleQueue()
        self._call = self.stub.StreamChannel(iter(self._out.get, None))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        try:
            for message in self._call:
                self._in.put(message)
            self._in.put(None)
        except grpc.RpcError as error:
            self._in.put(error)

    def send(self, **message: Message) -> None:
        self._out.put(p4.StreamMessageRequest(**message))

    def next(self, kind: str) -> Message:
        """Returns the next message on the stream, which must be of this kind."""
        message = self._in.get(timeout=PATIENCE_S)
        assert isinstance(message, p4.StreamMessageResponse), message
        assert message.WhichOneof("update") == kind, message
        return getattr(message, kind)

    def ended(self) -> grpc.StatusCode:
        """Waits until the switch ends the stream; returns the status code."""
        error = self._in.get(timeout=PATIENCE_S)
        assert isinstance(error, grpc.RpcError), error
        return error.code()

    def arbitrate(self, number: int | None, **fields: object) -> int:
        """Asks to use an election id; returns the status code in the answer."""
        self.ask(number, **fields)
        return self.next("arbitration").status.code

    def ask(self, number: int | None, **fields: object) -> None:
        """Asks to use an election id, and does not wait for the answer."""
        self.election_id = None if number is None else election(number)
        role = p4.Role(name=self.role) if self.role else None
        request = self.sender() | {"role": role} | fields
        self.send(arbitration=p4.MasterArbitrationUpdate(**request))

    def close(self) -> None:
        self._out.put(None)
        self._call.cancel()
        self._reader.join(PATIENCE_S)
        super().close()


@contextmanager
def connected(address: str, role: str = "") -> Iterator[Controller]:
    """A controller that is connected but has sent no message yet."""
    controller = Controller(address)
    controller.role = role
    try:
        yield controller
    finally:
        controller.close()


@contextmanager
def controller(address: str, number: int = 1) -> Iterator[Controller]:
    """A controller that has an election id."""
    with connected(address) as found:
        found.arbitrate(number)
        yield found


def exact(field: int, value: bytes) -> p4.FieldMatch:
    return p4.FieldMatch(field_id=field, exact=p4.FieldMatch.Exact(value=value))


def ternary(field: int, value: bytes, mask: bytes) -> p4.FieldMatch:
    match = p4.FieldMatch.Ternary(value=value, mask=mask)
    return p4.FieldMatch(field_id=field, ternary=match)


def action(action_id: int, *values: bytes) -> p4.Action:
    params = (p4.Action.Param(param_id=n, value=v) for n, v in enumerate(values, 1))
    return p4.Action(action_id=action_id, params=params)


def runs(action_id: int, *values: bytes) -> p4.TableAction:
    return p4.TableAction(action=action(action_id, *values))


def begun(key: bytes, value: bytes = b"\1") -> p4.TableEntry:
    """An entry for `every_entity`'s table `begun`. The program declares two more entries of it."""
    action = runs(ids()["mark"], value)
    return p4.TableEntry(table_id=ids()["begun"], match=[exact(1, key)], action=action)


def limited(**fields: object) -> p4.TableEntry:
    """An entry for `every_entity`'s table `limited`, which has counters, meters, idle timeouts."""
    match, action = [exact(1, b"\7")], runs(ids()["metered"])
    return p4.TableEntry(table_id=ids()["limited"], match=match, action=action, **fields)


def slot(index: int | None = None, value: bytes | None = None) -> p4.RegisterEntry:
    """A cell of the register `slots` of `every_entity`; all of its cells if `index` is None."""
    at = None if index is None else p4.Index(index=index)
    data = None if value is None else P4Data(bitstring=value)
    return p4.RegisterEntry(register_id=ids()["slots"], index=at, data=data)


def changed(message: Message, **fields: object) -> Message:
    """Copies a message and sets these fields. Elements of lists are appended to its own lists."""
    found = type(message)()
    found.CopyFrom(message)
    found.MergeFrom(type(message)(**fields))
    return found


def error_of(call: object, *args: object, **fields: object) -> grpc.RpcError:
    """Makes a call that must fail; returns the error."""
    try:
        call(*args, **fields)  # type: ignore[operator]
    except grpc.RpcError as error:
        return error
    raise AssertionError(f"expected an error, found none: {call}{args}{fields}")


def code_of(call: object, *args: object, **fields: object) -> grpc.StatusCode:
    """Makes a call that must fail; returns the status code."""
    error = error_of(call, *args, **fields)
    assert error.details(), error
    return error.code()
