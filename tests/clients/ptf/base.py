"""The base class of the suite's tests: a P4Runtime session that has set the program, and ports."""

from collections.abc import Iterable

import ptf
from client import Controller, config, ids, packet_header, packet_out, runs
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2 as p4
from ptf import testutils
from ptf.base_tests import BaseTest
from switch import BRIDGE


class BridgeTest(BaseTest):
    """A test of the bridge program, which has just been set."""

    def setUp(self) -> None:
        super().setUp()
        self.dataplane = ptf.dataplane_instance
        self.dataplane.flush()
        self.ports = sorted(port for _, port, _ in ptf.config["interfaces"])
        self.controller = Controller(testutils.test_param_get("grpcaddr"))
        self.addCleanup(self.controller.close)
        self.controller.device_id = int(testutils.test_param_get("device_id"))
        self.assertEqual(self.controller.arbitrate(1), code_pb2.OK)
        self.controller.set_pipeline(config(BRIDGE))

    def entry(
        self,
        table: str,
        action: str,
        *values: int,
        match: Iterable[p4.FieldMatch],
        priority: int = 0,
    ) -> p4.TableEntry:
        """An entry of a table: the default entry if it has neither match nor priority."""
        match = list(match)
        return p4.TableEntry(
            table_id=ids(BRIDGE)[table],
            match=match,
            priority=priority,
            is_default_action=not match and not priority,
            action=runs(ids(BRIDGE)[action], *map(as_bytes, values)),
        )

    def group(self, number: int, *ports: int) -> p4.MulticastGroupEntry:
        replicas = (p4.Replica(egress_port=port, instance=n) for n, port in enumerate(ports))
        return p4.MulticastGroupEntry(multicast_group_id=number, replicas=replicas)

    def counter(self, alias: str, index: int) -> p4.CounterData:
        asked = p4.CounterEntry(counter_id=ids(BRIDGE)[alias], index=p4.Index(index=index))
        (found,) = self.controller.read(asked)
        return found.data

    def packet_out(self, payload: bytes, port: int) -> None:
        self.controller.send(packet=packet_out(payload, as_bytes(port), BRIDGE))

    def verify_packet_in(self, payload: bytes, ingress_port: int) -> None:
        """Checks that the next packet-in has this payload and this ingress port."""
        packet = self.controller.next("packet")
        self.assertEqual(packet.payload, payload)
        values = {one.metadata_id: one.value for one in packet.metadata}
        fields = {field.name: field.id for field in packet_header("packet_in", BRIDGE).metadata}
        self.assertEqual(values[fields["ingress_port"]], as_bytes(ingress_port))


def as_bytes(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def mac(address: str) -> bytes:
    return bytes.fromhex(address.replace(":", ""))


def lpm(field: int, value: bytes, prefix_len: int) -> p4.FieldMatch:
    match = p4.FieldMatch.LPM(value=value, prefix_len=prefix_len)
    return p4.FieldMatch(field_id=field, lpm=match)


def within(field: int, low: int, high: int) -> p4.FieldMatch:
    match = p4.FieldMatch.Range(low=as_bytes(low), high=as_bytes(high))
    return p4.FieldMatch(field_id=field, range=match)


def optional(field: int, value: int) -> p4.FieldMatch:
    match = p4.FieldMatch.Optional(value=as_bytes(value))
    return p4.FieldMatch(field_id=field, optional=match)
