"""Tests P4Runtime's section "P4Runtime Stream Messages": packets, errors, unknown messages."""

from client import Controller, code_of, connected, ids, packet_out
from google.protobuf.any_pb2 import Any
from google.rpc.code_pb2 import INVALID_ARGUMENT, PERMISSION_DENIED, UNIMPLEMENTED
from grpc import StatusCode
from p4.v1 import p4runtime_pb2 as p4
from switch import PORTS, Switch

TO_CONTROLLER = 0xFF


# spec: packet-io.out, packet-io.in
def test_a_packet_out_leaves_and_comes_back_as_a_packet_in(
    primary: Controller, switch: Switch
) -> None:
    with connected(switch.grpc) as backup:
        backup.arbitrate(0)
        for port in PORTS:
            frame = switch.frame(to=port, kind=TO_CONTROLLER)
            primary.send(packet=packet_out(frame))
            packet = primary.next("packet")
            values = {one.metadata_id: one.value for one in packet.metadata}
            assert values == {1: bytes([port]), 2: b"\0"}
            # The ports are UDP sockets, which receive only the payload. The switch puts new headers
            # of 42 bytes before the payload.
            assert len(packet.payload) == len(frame)
            assert packet.payload[42:] == frame[42:]
        # The backup got no packet-in: its next message is the answer to this request.
        backup.arbitrate(0)


# spec: stream.errors
def test_a_packet_out_that_cannot_be_sent_is_told_with_the_packet(
    primary: Controller, switch: Switch
) -> None:
    payload = switch.frame(to=2)
    short, twice, wide, unknown = (packet_out(payload) for _ in range(4))
    del short.metadata[1]
    twice.metadata[1].metadata_id = 1
    wide.metadata[0].value = b"\x02\x00"
    unknown.metadata[1].metadata_id = 9
    for wrong in (short, twice, wide, unknown, p4.PacketOut()):
        primary.send(packet=wrong)
        told = primary.next("error")
        assert told.WhichOneof("details") == "packet_out"
        assert told.packet_out.packet_out == wrong
        assert (told.canonical_code, bool(told.message)) == (INVALID_ARGUMENT, True)
    # The stream still works.
    primary.send(packet=packet_out(switch.frame(to=2, kind=TO_CONTROLLER)))
    primary.next("packet")


# spec: stream.errors
def test_who_is_not_primary_is_told_so(primary: Controller, switch: Switch) -> None:
    with connected(switch.grpc) as stranger:
        stranger.send(packet=packet_out(switch.frame(to=2)))
        told = stranger.next("error")
        assert (told.canonical_code, told.WhichOneof("details")) == (
            PERMISSION_DENIED,
            "packet_out",
        )


# spec: stream.errors, stream.other
def test_other_messages_are_refused_with_what_they_were(primary: Controller) -> None:
    ack = p4.DigestListAck(digest_id=5, list_id=1)
    primary.send(digest_ack=ack)
    told = primary.next("error")
    assert (told.canonical_code, told.digest_list_ack.digest_list_ack) == (INVALID_ARGUMENT, ack)
    other = Any(type_url="type.googleapis.com/x.Y", value=b"")
    primary.send(other=other)
    told = primary.next("error")
    assert (told.canonical_code, told.other.other.type_url) == (UNIMPLEMENTED, other.type_url)
    assert "x.Y" in told.message


# spec: stream.unknown
def test_a_message_with_nothing_in_it_harms_nobody(primary: Controller) -> None:
    # A message type of a later version looks like an empty oneof here.
    primary.send()
    told = primary.next("error")
    assert told.canonical_code == INVALID_ARGUMENT
    assert primary.arbitrate(1) == 0
    assert ids()["seen_t"]


# spec: capabilities
def test_the_version_is_told_to_anybody(switch: Switch) -> None:
    with connected(switch.grpc) as stranger:
        answer = stranger.stub.Capabilities(p4.CapabilitiesRequest())
        assert answer.p4runtime_api_version == "1.5.0"
        if "device_id" in p4.CapabilitiesRequest.DESCRIPTOR.fields_by_name:
            of_another = p4.CapabilitiesRequest(device_id=9)
            assert code_of(stranger.stub.Capabilities, of_another) == StatusCode.NOT_FOUND
