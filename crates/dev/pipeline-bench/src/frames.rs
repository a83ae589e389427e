//! Makes frames with correct IPv4 checksums, one after the other in memory, as in a port's ring.

use dataplane::PortId;

/// The protocol number of TCP in IPv4.
pub const TCP: u8 = 6;
/// The protocol number of UDP in IPv4.
pub const UDP: u8 = 17;

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const PORTS_BYTES: usize = 8;

#[derive(Debug, Clone)]
pub struct Frames {
    bytes: Vec<u8>,
    ports: Vec<PortId>,
    len: usize,
}

#[derive(Debug, Clone, Copy)]
pub struct Ipv4Frame {
    /// Ethernet destination and source.
    pub macs: [[u8; 6]; 2],
    /// IPv4 source and destination.
    pub addresses: [u32; 2],
    /// [`TCP`] or [`UDP`].
    pub protocol: u8,
    /// Source port and destination port.
    pub ports: [u16; 2],
}

impl Frames {
    /// Makes an empty list of frames. `len` is the length of each frame in bytes, without FCS.
    pub fn new(len: usize) -> Self {
        let least = ETHERNET_BYTES + IPV4_BYTES + PORTS_BYTES;
        Self {
            bytes: Vec::new(),
            ports: Vec::new(),
            len: len.max(least),
        }
    }

    pub fn len(&self) -> usize {
        self.ports.len()
    }

    /// Returns a frame, and the port at which the frame arrives.
    pub fn get(&self, place: usize) -> (PortId, &[u8]) {
        let bytes = &self.bytes[place * self.len..][..self.len];
        (self.ports[place], bytes)
    }

    /// Appends an IPv4 packet. A UDP packet has no checksum, as RFC 768 allows. A TCP header consists only of the
    /// ports, since the pipelines read no other field.
    pub fn push(&mut self, port: PortId, frame: &Ipv4Frame) {
        let at = self.bytes.len();
        self.bytes.resize(at + self.len, 0);
        self.ports.push(port);
        let bytes = &mut self.bytes[at..];
        let ip_len = u16::try_from(self.len - ETHERNET_BYTES).unwrap_or(u16::MAX);
        let udp_len = ip_len - IPV4_BYTES as u16;
        bytes[..6].copy_from_slice(&frame.macs[0]);
        bytes[6..12].copy_from_slice(&frame.macs[1]);
        bytes[12..14].copy_from_slice(&[8, 0]);
        let ipv4 = &mut bytes[ETHERNET_BYTES..][..IPV4_BYTES];
        ipv4[0] = 0x45;
        ipv4[2..4].copy_from_slice(&ip_len.to_be_bytes());
        ipv4[8..10].copy_from_slice(&[64, frame.protocol]);
        ipv4[12..16].copy_from_slice(&frame.addresses[0].to_be_bytes());
        ipv4[16..20].copy_from_slice(&frame.addresses[1].to_be_bytes());
        let sum = !ones_complement_sum(ipv4);
        ipv4[10..12].copy_from_slice(&sum.to_be_bytes());
        let rest = &mut bytes[ETHERNET_BYTES + IPV4_BYTES..];
        rest[..2].copy_from_slice(&frame.ports[0].to_be_bytes());
        rest[2..4].copy_from_slice(&frame.ports[1].to_be_bytes());
        if frame.protocol == UDP {
            rest[4..6].copy_from_slice(&udp_len.to_be_bytes());
        }
    }
}

/// Returns the checksum of RFC 1071 over an even number of bytes.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2);
    let mut sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_with_its_checksum_sums_to_all_ones() {
        let mut frames = Frames::new(64);
        let frame = Ipv4Frame {
            macs: [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]],
            addresses: [0x0a00_0001, 0x0a01_ffff],
            protocol: UDP,
            ports: [5004, 6000],
        };
        frames.push(PortId(1), &frame);
        frames.push(PortId(2), &frame);
        let (port, bytes) = frames.get(1);
        assert_eq!((port, bytes.len(), frames.len()), (PortId(2), 64, 2));
        assert_eq!(ones_complement_sum(&bytes[14..34]), 0xffff);
        assert_eq!(bytes[38..40], [0, 30]);
    }
}
