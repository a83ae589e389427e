"""The bridge forwards, drops, replicates, counts, and speaks with its controller."""

from base import BridgeTest, lpm, mac, optional, within
from client import exact, ids, ternary
from p4.v1 import p4runtime_pb2 as p4
from ptf.testutils import (
    send_packet,
    simple_udp_packet,
    verify_each_packet_on_each_port,
    verify_no_other_packets,
    verify_packet,
    verify_packets,
)
from scapy.packet import Packet
from switch import BRIDGE

HOST = "02:00:00:00:00:0a"
SENDER = "02:00:00:00:00:0b"
N_PACKETS = 5


def datagram(to: str = HOST, source: str = SENDER, length: int = 100) -> Packet:
    return simple_udp_packet(pktlen=length, eth_dst=to, eth_src=source)


# spec: table-entry.insert-modify-delete
class AnAddressHasAPort(BridgeTest):
    """As long as an entry exists, packets leave unchanged by the entry's port."""

    def runTest(self) -> None:
        packet = datagram()
        send_packet(self, self.ports[0], packet)
        verify_no_other_packets(self)
        entry = self.entry("forward", "set_port", self.ports[1], match=[exact(1, mac(HOST))])
        self.controller.insert(entry)
        for ingress in (self.ports[0], self.ports[2]):
            send_packet(self, ingress, packet)
            verify_packets(self, packet, [self.ports[1]])
        entry.action.action.params[0].value = bytes([self.ports[3]])
        self.controller.modify(entry)
        send_packet(self, self.ports[0], packet)
        verify_packets(self, packet, [self.ports[3]])
        self.controller.delete(entry)
        send_packet(self, self.ports[0], packet)
        verify_no_other_packets(self)


# spec: table-entry.matches
class TheLongestPrefixWins(BridgeTest):
    """Of two prefixes of the source address the longer one wins, whichever was added first."""

    def runTest(self) -> None:
        ranges = [(mac("02:00:00:00:00:00"), 8), (mac("02:00:00:00:00:0b"), 48)]
        for (value, prefix_len), port in zip(ranges, self.ports[1:3], strict=True):
            match = [lpm(1, value, prefix_len)]
            self.controller.insert(self.entry("routes", "set_port", port, match=match))
        send_packet(self, self.ports[0], datagram())
        verify_packets(self, datagram(), [self.ports[2]])
        other = datagram(source="02:00:00:00:00:0c")
        send_packet(self, self.ports[0], other)
        verify_packets(self, other, [self.ports[1]])


# spec: table-entry.matches
class TheHighestPriorityWins(BridgeTest):
    """An access list entry with a higher priority permits what another entry drops."""

    def runTest(self) -> None:
        to_port = self.entry("forward", "set_port", self.ports[1], match=[exact(1, mac(HOST))])
        some = ternary(1, mac(HOST), mac("ff:ff:ff:00:00:ff"))
        other_type = self.entry("acl", "discard", match=[some, within(2, 0x801, 0x805)], priority=9)
        self.controller.insert(to_port, other_type)
        send_packet(self, self.ports[0], datagram())
        verify_packets(self, datagram(), [self.ports[1]])
        drop = self.entry("acl", "discard", match=[some, within(2, 0x800, 0x805)], priority=10)
        self.controller.insert(drop)
        send_packet(self, self.ports[0], datagram())
        verify_no_other_packets(self)
        # Permits packets from one port only.
        match = [optional(3, self.ports[2])]
        self.controller.insert(self.entry("acl", "NoAction", match=match, priority=11))
        send_packet(self, self.ports[2], datagram())
        verify_packets(self, datagram(), [self.ports[1]])
        send_packet(self, self.ports[0], datagram())
        verify_no_other_packets(self)


# spec: table-entry.default
class TheDefaultActionIsForEverythingElse(BridgeTest):
    """The default action runs without a match. It can be reset to the program's default action."""

    def runTest(self) -> None:
        self.controller.modify(self.entry("forward", "to_cpu", match=[]))
        send_packet(self, self.ports[0], datagram())
        self.verify_packet_in(bytes(datagram()), self.ports[0])
        self.controller.modify(
            p4.TableEntry(table_id=ids(BRIDGE)["forward"], is_default_action=True)
        )
        send_packet(self, self.ports[0], datagram())
        verify_no_other_packets(self)


# spec: multicast.groups
class AGroupReplicates(BridgeTest):
    """A packet leaves once by each port of its group, also after the group's ports changed."""

    def runTest(self) -> None:
        broadcast = "ff:ff:ff:ff:ff:ff"
        self.controller.insert(
            self.group(1, *self.ports[1:]),
            self.entry("forward", "set_group", 1, match=[exact(1, mac(broadcast))]),
        )
        packet = datagram(broadcast)
        send_packet(self, self.ports[0], packet)
        verify_packets(self, packet, self.ports[1:])
        self.controller.modify(self.group(1, self.ports[0], self.ports[0]))
        send_packet(self, self.ports[2], packet)
        for _ in range(2):
            verify_packet(self, packet, self.ports[0])
        verify_no_other_packets(self)


# spec: counter.indexed, counter.direct
class PacketsAreCounted(BridgeTest):
    """A direct counter counts the packets and bytes of an entry.

    Each cell of a counter array counts the packets and bytes of a port.
    """

    def runTest(self) -> None:
        match = [exact(1, mac(HOST))]
        entry = self.entry("forward", "set_port", self.ports[1], match=match)
        self.controller.insert(entry)
        for number in range(N_PACKETS):
            packet = datagram(length=100 + number)
            send_packet(self, self.ports[0], packet)
            verify_packet(self, packet, self.ports[1])
        n_bytes = sum(100 + number for number in range(N_PACKETS))
        key = p4.TableEntry(table_id=entry.table_id, match=match)
        (found,) = self.controller.read(p4.DirectCounterEntry(table_entry=key))
        counted = found.data
        self.assertEqual((counted.packet_count, counted.byte_count), (N_PACKETS, n_bytes))
        self.assertEqual(self.counter("copies", self.ports[1]).packet_count, N_PACKETS)
        self.assertEqual(self.counter("copies", self.ports[2]).packet_count, 0)


# spec: packet-io.out
class PacketOutsLeaveByTheirPort(BridgeTest):
    """A packet-out leaves by the port in its metadata, and by no other port."""

    def runTest(self) -> None:
        packets = [datagram(source=f"02:00:00:00:01:{port:02x}") for port in self.ports]
        for packet, port in zip(packets, self.ports, strict=True):
            self.packet_out(bytes(packet), port)
        verify_each_packet_on_each_port(self, packets, self.ports)
        verify_no_other_packets(self)


# spec: packet-io.in
class PacketInsSayWhereTheyCameFrom(BridgeTest):
    """A packet-in has its ingress port in its metadata; the packet leaves by no port."""

    def runTest(self) -> None:
        self.controller.insert(self.entry("forward", "to_cpu", match=[exact(1, mac(HOST))]))
        for port in self.ports:
            packet = datagram(source=f"02:00:00:00:01:{port:02x}")
            send_packet(self, port, packet)
            self.verify_packet_in(bytes(packet), port)
        verify_no_other_packets(self)
