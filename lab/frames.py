"""Ethernet, IPv4 and UDP headers as bytes (RFC 791, RFC 768, RFC 1071). No I/O."""

import struct
from dataclasses import dataclass
from ipaddress import IPv4Address

ETHERNET_LEN_BYTES = 14
IPV4_LEN_BYTES = 20
UDP_LEN_BYTES = 8
HEADERS_LEN_BYTES = ETHERNET_LEN_BYTES + IPV4_LEN_BYTES + UDP_LEN_BYTES
ETHERTYPE_IPV4 = 0x0800
PROTOCOL_UDP = 17


@dataclass(frozen=True, slots=True)
class UdpFrame:
    """The fields of a UDP datagram and of its Ethernet frame that the lab's analysis reads."""

    eth_src: str
    eth_dst: str
    src_ip: str
    dst_ip: str
    src_port: int
    dst_port: int
    payload: bytes


def mac_bytes(mac: str) -> bytes:
    return bytes.fromhex(mac.replace(":", ""))


def arp_announcement(ip: str, mac: str) -> bytes:
    """An ARP announcement (RFC 5227) of `ip` at `mac`, as a frame."""
    address = IPv4Address(ip).packed
    arp = bytes.fromhex("0001080006040001") + mac_bytes(mac) + address + bytes(6) + address
    return (b"\xff" * 6 + mac_bytes(mac) + b"\x08\x06" + arp).ljust(60, b"\0")


def internet_checksum(data: bytes) -> int:
    """The Internet checksum of RFC 1071; 0 over data that already contains a right checksum."""
    # The largest sum of 64 KiB fits 32 bits, so the carries are folded once at the end.
    padded = data + b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def udp_frame(datagram: UdpFrame) -> bytes:
    """The frame of `datagram` with right checksums, TTL 64, no fragmentation."""
    addresses = IPv4Address(datagram.src_ip).packed + IPv4Address(datagram.dst_ip).packed
    udp_len = UDP_LEN_BYTES + len(datagram.payload)
    ports = struct.pack("!HHH", datagram.src_port, datagram.dst_port, udp_len)
    pseudo_header = addresses + struct.pack("!HH", PROTOCOL_UDP, udp_len)
    # RFC 768: a sum that comes out as zero is sent as all ones, zero means "no checksum".
    udp_sum = internet_checksum(pseudo_header + ports + b"\0\0" + datagram.payload) or 0xFFFF
    before_sum = struct.pack(
        "!BBHHHBB", 0x45, 0, IPV4_LEN_BYTES + udp_len, 0, 0x4000, 64, PROTOCOL_UDP
    )
    ipv4_sum = internet_checksum(before_sum + b"\0\0" + addresses)
    return b"".join(
        (
            mac_bytes(datagram.eth_dst),
            mac_bytes(datagram.eth_src),
            struct.pack("!H", ETHERTYPE_IPV4),
            before_sum,
            struct.pack("!H", ipv4_sum),
            addresses,
            ports,
            struct.pack("!H", udp_sum),
            datagram.payload,
        )
    )


def parse_udp(frame: bytes) -> UdpFrame | None:
    """The datagram in `frame`; None if the frame has no complete, unfragmented UDP datagram."""
    if len(frame) < HEADERS_LEN_BYTES or frame[12:14] != b"\x08\x00" or frame[23] != PROTOCOL_UDP:
        return None
    if struct.unpack_from("!H", frame, 20)[0] & 0x3FFF:
        return None
    udp_at = ETHERNET_LEN_BYTES + (frame[14] & 0x0F) * 4
    if len(frame) < udp_at + UDP_LEN_BYTES:
        return None
    src_port, dst_port, udp_len = struct.unpack_from("!HHH", frame, udp_at)
    return UdpFrame(
        eth_src=frame[6:12].hex(":"),
        eth_dst=frame[0:6].hex(":"),
        src_ip=str(IPv4Address(frame[26:30])),
        dst_ip=str(IPv4Address(frame[30:34])),
        src_port=src_port,
        dst_port=dst_port,
        payload=frame[udp_at + UDP_LEN_BYTES : udp_at + udp_len],
    )


def checksums_are_right(frame: bytes) -> bool:
    """Whether the IPv4 and UDP checksums are right. A UDP checksum of 0 counts as wrong."""
    header_len = (frame[14] & 0x0F) * 4
    udp_at = ETHERNET_LEN_BYTES + header_len
    udp_len: int = struct.unpack_from("!H", frame, udp_at + 4)[0]
    segment = frame[udp_at : udp_at + udp_len]
    pseudo_header = frame[26:34] + struct.pack("!HH", PROTOCOL_UDP, udp_len)
    return (
        internet_checksum(frame[ETHERNET_LEN_BYTES:udp_at]) == 0
        and segment[6:8] != b"\0\0"
        and internet_checksum(pseudo_header + segment) == 0
    )
