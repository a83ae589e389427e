"""What the suite's tests have in common: a session that has set the program, and the ports."""

import queue
import threading
from collections.abc import Iterable
from pathlib import Path

import grpc
import ptf
from google.protobuf import text_format
from google.protobuf.message import Message
from google.rpc import code_pb2
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4
from p4.v1.p4runtime_pb2_grpc import P4RuntimeStub
from ptf import testutils
from ptf.base_tests import BaseTest

PATIENCE_S = 120.0
ELECTION_ID = p4.Uint128(low=1)


class BridgeTest(BaseTest):
    """A test of the bridge, on a program that has just been set."""

    def setUp(self) -> None:
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        self.ports = sorted(port for _, port, _ in ptf.config["interfaces"])
        self.device_id = int(testutils.test_param_get("device_id"))
        self.p4info = p4info_pb2.P4Info()
        text_format.Parse(Path(testutils.test_param_get("p4info")).read_text(), self.p4info)
        self._channel = grpc.insecure_channel(testutils.test_param_get("grpcaddr"))
        self.stub = P4RuntimeStub(self._channel)
        self._open_stream()
        self._set_program()

    def tearDown(self) -> None:
        self._out.put(None)
        self._reader.join(PATIENCE_S)
        self._channel.close()
        super().tearDown()

    def _open_stream(self) -> None:
        self._out: queue.SimpleQueue[p4.StreamMessageRequest | None] = queue.SimpleQueue()
        self._in: queue.SimpleQueue[p4.StreamMessageResponse] = queue.SimpleQueue()
        answers = self.stub.StreamChannel(iter(self._out.get, None))
        self._reader = threading.Thread(target=lambda: [self._in.put(one) for one in answers])
        self._reader.start()
        update = p4.MasterArbitrationUpdate(device_id=self.device_id, election_id=ELECTION_ID)
        self._out.put(p4.StreamMessageRequest(arbitration=update))
        told = self._next("arbitration")
        self.assertEqual(told.status.code, code_pb2.OK)

    def _set_program(self) -> None:
        program = Path(testutils.test_param_get("config")).read_bytes()
        config = p4.ForwardingPipelineConfig(p4info=self.p4info, p4_device_config=program)
        request = p4.SetForwardingPipelineConfigRequest(
            device_id=self.device_id,
            election_id=ELECTION_ID,
            action=p4.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=config,
        )
        self.stub.SetForwardingPipelineConfig(request, timeout=PATIENCE_S)

    def _next(self, kind: str) -> Message:
        """The stream's next message, which must be of this kind."""
        message = self._in.get(timeout=PATIENCE_S)
        self.assertEqual(message.WhichOneof("update"), kind)
        return getattr(message, kind)

    def id_of(self, kind: str, alias: str) -> int:
        for found in getattr(self.p4info, kind):
            if found.preamble.alias == alias:
                return found.preamble.id
        return self.fail(f"expected {alias} among the {kind} of the P4Info")

    def metadata_of(self, header: str) -> dict[str, int]:
        for found in self.p4info.controller_packet_metadata:
            if found.preamble.alias == header:
                return {field.name: field.id for field in found.metadata}
        return self.fail(f"expected a controller header {header} in the P4Info")

    def write(self, kind: int, entities: Iterable[p4.Entity]) -> None:
        request = p4.WriteRequest(
            device_id=self.device_id,
            election_id=ELECTION_ID,
            updates=(p4.Update(type=kind, entity=entity) for entity in entities),
        )
        self.stub.Write(request, timeout=PATIENCE_S)

    def insert(self, *entities: p4.Entity) -> None:
        self.write(p4.Update.INSERT, entities)

    def modify(self, *entities: p4.Entity) -> None:
        self.write(p4.Update.MODIFY, entities)

    def delete(self, *entities: p4.Entity) -> None:
        self.write(p4.Update.DELETE, entities)

    def read(self, entity: p4.Entity) -> p4.Entity:
        """The only entity that a read finds."""
        request = p4.ReadRequest(device_id=self.device_id, entities=[entity])
        answers = list(self.stub.Read(request, timeout=PATIENCE_S))
        (found,) = (one for answer in answers for one in answer.entities)
        return found

    def entry(
        self,
        table: str,
        action: str,
        *values: int,
        match: Iterable[p4.FieldMatch],
        priority: int = 0,
    ) -> p4.Entity:
        """A table's entry; no match and no priority is the default entry."""
        match = list(match)
        params = (
            p4.Action.Param(param_id=number, value=as_bytes(value))
            for number, value in enumerate(values, 1)
        )
        call = p4.Action(action_id=self.id_of("actions", action), params=params)
        entry = p4.TableEntry(
            table_id=self.id_of("tables", table),
            match=match,
            priority=priority,
            is_default_action=not match and not priority,
            action=p4.TableAction(action=call),
        )
        return p4.Entity(table_entry=entry)

    def group(self, number: int, *ports: int) -> p4.Entity:
        replicas = (p4.Replica(egress_port=port, instance=n) for n, port in enumerate(ports))
        of = p4.MulticastGroupEntry(multicast_group_id=number, replicas=replicas)
        engine = p4.PacketReplicationEngineEntry(multicast_group_entry=of)
        return p4.Entity(packet_replication_engine_entry=engine)

    def counter(self, alias: str, index: int) -> p4.CounterData:
        asked = p4.CounterEntry(
            counter_id=self.id_of("counters", alias), index=p4.Index(index=index)
        )
        return self.read(p4.Entity(counter_entry=asked)).counter_entry.data

    def packet_out(self, payload: bytes, port: int) -> None:
        fields = self.metadata_of("packet_out")
        packet = p4.PacketOut(payload=payload)
        packet.metadata.add(metadata_id=fields["egress_port"], value=as_bytes(port))
        packet.metadata.add(metadata_id=fields["_pad"], value=b"\0")
        self._out.put(p4.StreamMessageRequest(packet=packet))

    def verify_packet_in(self, payload: bytes, ingress_port: int) -> None:
        """The next packet-in is this packet, from this port."""
        packet = self._next("packet")
        self.assertEqual(packet.payload, payload)
        values = {one.metadata_id: one.value for one in packet.metadata}
        fields = self.metadata_of("packet_in")
        self.assertEqual(values[fields["ingress_port"]], as_bytes(ingress_port))


def as_bytes(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def mac(address: str) -> bytes:
    return bytes.fromhex(address.replace(":", ""))


def exact(field: int, value: bytes) -> p4.FieldMatch:
    return p4.FieldMatch(field_id=field, exact=p4.FieldMatch.Exact(value=value))


def lpm(field: int, value: bytes, prefix_len: int) -> p4.FieldMatch:
    match = p4.FieldMatch.LPM(value=value, prefix_len=prefix_len)
    return p4.FieldMatch(field_id=field, lpm=match)


def ternary(field: int, value: bytes, mask: bytes) -> p4.FieldMatch:
    match = p4.FieldMatch.Ternary(value=value, mask=mask)
    return p4.FieldMatch(field_id=field, ternary=match)


def within(field: int, low: int, high: int) -> p4.FieldMatch:
    match = p4.FieldMatch.Range(low=as_bytes(low), high=as_bytes(high))
    return p4.FieldMatch(field_id=field, range=match)


def optional(field: int, value: int) -> p4.FieldMatch:
    match = p4.FieldMatch.Optional(value=as_bytes(value))
    return p4.FieldMatch(field_id=field, optional=match)
