//! Makes and parses frames for tests. `etherparse` computes the checksums, so that the checksum code of this project
//! does not check itself.

#![expect(clippy::panic, reason = "a test's assertions and set-up")]

use std::net::Ipv4Addr;

use etherparse::{Ipv4Slice, LinkSlice, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};

use crate::sfu::{PRESENTER_IP, PRESENTER_MAC, SFU_IP, SFU_MAC, STREAM_PORT};

pub const PRESENTER_PORT: u16 = 40_000;

/// Makes a presenter's packet to the SFU, with correct checksums.
pub fn presenter_frame(ttl: u8, payload: &[u8]) -> Vec<u8> {
    udp_frame(PRESENTER_IP, STREAM_PORT, ttl, payload)
}

/// Makes a UDP packet to the SFU, with correct checksums.
pub fn udp_frame(src: Ipv4Addr, dst_port: u16, ttl: u8, payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(PRESENTER_MAC, SFU_MAC)
        .ipv4(src.octets(), SFU_IP.octets(), ttl)
        .udp(PRESENTER_PORT, dst_port);
    let mut frame = Vec::with_capacity(builder.size(payload.len()));
    builder
        .write(&mut frame, payload)
        .expect("a Vec takes everything");
    frame
}

pub fn echo_request(payload: &[u8]) -> Vec<u8> {
    let builder = PacketBuilder::ethernet2(PRESENTER_MAC, SFU_MAC)
        .ipv4(PRESENTER_IP.octets(), SFU_IP.octets(), 64)
        .icmpv4_echo_request(7, 1);
    let mut frame = Vec::with_capacity(builder.size(payload.len()));
    builder
        .write(&mut frame, payload)
        .expect("a Vec takes everything");
    frame
}

/// Makes an ARP frame of the presenter: a request for `target` (operation 1), or a reply to the SFU (operation 2).
pub fn arp(operation: u16, target: Ipv4Addr) -> Vec<u8> {
    let destination = if operation == 1 { [0xff; 6] } else { SFU_MAC };
    let mut frame = Vec::with_capacity(60);
    frame.extend(destination);
    frame.extend(PRESENTER_MAC);
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4]);
    frame.extend(operation.to_be_bytes());
    frame.extend(PRESENTER_MAC);
    frame.extend(PRESENTER_IP.octets());
    frame.extend(if operation == 1 { [0; 6] } else { SFU_MAC });
    frame.extend(target.octets());
    frame.resize(60, 0);
    frame
}

/// The fields of a copy that left the SFU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpCopy {
    /// Ethernet destination and source.
    pub macs: ([u8; 6], [u8; 6]),
    /// IPv4 source and destination.
    pub ips: (Ipv4Addr, Ipv4Addr),
    pub ttl: u8,
    /// UDP source and destination.
    pub ports: (u16, u16),
    pub payload: Vec<u8>,
    pub udp_checksum: u16,
    /// Whether the UDP checksum is right.
    pub udp_checksum_right: bool,
}

/// Parses a frame. The IPv4 header checksum must be correct.
pub fn udp_copy(frame: &[u8]) -> UdpCopy {
    let sliced = SlicedPacket::from_ethernet(frame).expect("a whole packet");
    let Some(LinkSlice::Ethernet2(ethernet)) = &sliced.link else {
        panic!("not Ethernet")
    };
    let Some(NetSlice::Ipv4(ipv4)) = &sliced.net else {
        panic!("not IPv4: {frame:02x?}")
    };
    let Some(TransportSlice::Udp(udp)) = &sliced.transport else {
        panic!("not UDP: {frame:02x?}")
    };
    assert_header_checksum(ipv4);
    let header = ipv4.header();
    let expected = udp
        .to_header()
        .calc_checksum_ipv4_raw(header.source(), header.destination(), udp.payload())
        .expect("the payload is short enough");
    UdpCopy {
        macs: (ethernet.destination(), ethernet.source()),
        ips: (header.source_addr(), header.destination_addr()),
        ttl: header.ttl(),
        ports: (udp.source_port(), udp.destination_port()),
        payload: udp.payload().to_vec(),
        udp_checksum: udp.checksum(),
        udp_checksum_right: udp.checksum() == expected,
    }
}

/// Fails if the IPv4 header's checksum differs from a checksum over the whole header.
pub fn assert_header_checksum(ipv4: &Ipv4Slice<'_>) {
    let header = ipv4.header();
    assert_eq!(
        header.header_checksum(),
        header.to_header().calc_header_checksum(),
        "IPv4 header checksum of {header:?}"
    );
}
