//! Frames with hellos and their answers. The switch passes whole frames to the service (packet-in), and sends the
//! frames that the service makes (packet-out). With hellos a host signs a socket in.

use std::net::IpAddr;

use conference_model::BindingRecord;
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};

/// A hello, where it came from, and to which address of the switch it was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HelloFrame {
    /// Where the hello came from, and to which address of the switch it was sent.
    pub from: BindingRecord,
    /// The switch's UDP port for media.
    pub media_port: u16,
    /// The datagram's content.
    pub payload: Vec<u8>,
}

/// Why a frame is no datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("expected an Ethernet frame with a UDP datagram")]
pub struct NoHelloFrame;

impl HelloFrame {
    /// Parses a frame that the switch received on a port.
    ///
    /// # Errors
    /// The frame is no Ethernet frame with a UDP datagram.
    pub fn parse(port: u16, frame: &[u8]) -> Result<HelloFrame, NoHelloFrame> {
        let packet = SlicedPacket::from_ethernet(frame).map_err(|_| NoHelloFrame)?;
        let link = packet.link.as_ref().and_then(|it| it.to_header());
        let ethernet = link.and_then(|it| it.ethernet2()).ok_or(NoHelloFrame)?;
        let (address, own_address): (IpAddr, IpAddr) = match &packet.net {
            Some(NetSlice::Ipv4(ip)) => {
                let header = ip.header();
                (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                )
            }
            Some(NetSlice::Ipv6(ip)) => {
                let header = ip.header();
                (
                    header.source_addr().into(),
                    header.destination_addr().into(),
                )
            }
            _ => return Err(NoHelloFrame),
        };
        let Some(TransportSlice::Udp(udp)) = &packet.transport else {
            return Err(NoHelloFrame);
        };
        Ok(HelloFrame {
            from: BindingRecord {
                port,
                mac: ethernet.source,
                address,
                udp_port: udp.source_port(),
                own_mac: ethernet.destination,
                own_address,
            },
            media_port: udp.destination_port(),
            payload: udp.payload().to_vec(),
        })
    }

    /// Returns the frame of an answer, which goes back to where the hello came from.
    #[must_use]
    pub fn answer(&self, payload: &[u8]) -> Vec<u8> {
        const TTL: u8 = 64;
        let from = &self.from;
        let ethernet = PacketBuilder::ethernet2(from.own_mac, from.mac);
        let ip = match (from.own_address, from.address) {
            (IpAddr::V4(own), IpAddr::V4(host)) => ethernet.ipv4(own.octets(), host.octets(), TTL),
            (own, host) => ethernet.ipv6(v6(own), v6(host), TTL),
        };
        let udp = ip.udp(self.media_port, from.udp_port);
        let mut frame = Vec::with_capacity(udp.size(payload.len()));
        // Writing to a Vec fails only for a payload of almost 64 KiB or more.
        match udp.write(&mut frame, payload) {
            Ok(()) => frame,
            Err(_) => Vec::new(),
        }
    }
}

fn v6(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_goes_back_the_way_that_the_hello_came() {
        let v4 = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
        let v6 = PacketBuilder::ethernet2([2; 6], [4; 6]).ipv6([1; 16], [3; 16], 9);
        for packet in [v4, v6] {
            let mut frame = Vec::new();
            packet
                .udp(7, 5004)
                .write(&mut frame, b"hello")
                .expect("it fits");
            let hello = HelloFrame::parse(3, &frame).expect("a datagram");
            assert_eq!(
                (hello.from.port, hello.from.udp_port, hello.media_port),
                (3, 7, 5004)
            );
            assert_eq!(hello.payload, b"hello");
            let back = HelloFrame::parse(3, &hello.answer(b"welcome")).expect("a datagram");
            assert_eq!(back.payload, b"welcome");
            assert_eq!(
                (back.from.mac, back.from.own_mac),
                (hello.from.own_mac, hello.from.mac)
            );
            assert_eq!(back.from.address, hello.from.own_address);
            assert_eq!(back.from.own_address, hello.from.address);
            assert_eq!((back.from.udp_port, back.media_port), (5004, 7));
            for len in 0..frame.len() - 5 {
                assert!(HelloFrame::parse(3, &frame[..len]).is_err(), "{len} bytes");
            }
        }
    }
}
