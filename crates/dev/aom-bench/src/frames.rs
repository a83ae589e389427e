//! Makes the frames of requests to the sequencer, and reads the fields of the copies that the sequencer makes of each
//! request.

use std::net::Ipv4Addr;

use aom::wire::{HEADER_BYTES, UDP_PORT, Variant, request};

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// The offset of the UDP payload.
pub(crate) const BEFORE: usize = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES;
/// The message starts with a mark that identifies its request.
pub(crate) const MARK_BYTES: usize = 4;
/// The number of marks. The marks are reused in a cycle, so at most this many requests may be in flight.
pub(crate) const N_MARKS: usize = 1 << 14;

/// The fields of a copy of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// The last byte of the destination address.
    pub(crate) to: u8,
    pub(crate) shard: u8,
    /// The mark of the request.
    pub(crate) mark: usize,
    pub(crate) is_signed: bool,
}

/// Returns the frame of a request. If `udp_port` is not `UDP_PORT`, the sequencer forwards the frame without a tag.
pub(crate) fn frame(
    variant: Variant,
    (from, to): (Ipv4Addr, Ipv4Addr),
    udp_port: u16,
    mark: usize,
    message_bytes: usize,
) -> Vec<u8> {
    let mut message = vec![0x5a; message_bytes.max(MARK_BYTES)];
    message[..MARK_BYTES].copy_from_slice(&(mark as u32).to_be_bytes());
    let payload = request(variant, 0, &message);
    let [_, b, c, d] = to.octets();
    let mut frame = vec![1, 0, 0x5e, b & 0x7f, c, d, 2, 0, 0, 0, 2, 1, 8, 0];
    let udp_bytes = (UDP_BYTES + payload.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend((IPV4_BYTES as u16 + udp_bytes).to_be_bytes());
    ip.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
    ip.extend(from.octets());
    ip.extend(to.octets());
    let checksum = internet_checksum(&ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(ip);
    for field in [40_000, udp_port, udp_bytes, 0] {
        frame.extend(field.to_be_bytes());
    }
    frame.extend(payload);
    frame
}

fn internet_checksum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks_exact(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// Parses a copy of one of the requests. Returns `None` for any other frame.
pub(crate) fn seen(frame: &[u8], variant: Variant) -> Option<Seen> {
    let is_udp = frame.get(12..15)? == [8, 0, 0x45] && frame[23] == 17;
    // The payload's length is not checked. The payload only has to contain the mark.
    let payload = frame.get(BEFORE..).filter(|_| is_udp)?;
    let at = variant.overhead_bytes();
    let mark = payload.get(at..at + MARK_BYTES)?;
    let mark = u32::from_be_bytes([mark[0], mark[1], mark[2], mark[3]]) as usize;
    let signature = &payload[HEADER_BYTES..at];
    (mark < N_MARKS).then(|| Seen {
        to: frame[33],
        shard: payload[5],
        mark,
        is_signed: signature.iter().any(|byte| *byte != 0),
    })
}

/// The destination port of plain frames, which the sequencer forwards without a tag.
pub(crate) const PLAIN_UDP_PORT: u16 = UDP_PORT + 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_made() {
        let addresses = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(239, 1, 0, 9));
        for variant in [Variant::Tagged, Variant::Signed] {
            for mark in [0, 1, N_MARKS - 1] {
                let frame = frame(variant, addresses, UDP_PORT, mark, 14);
                let expected = Seen {
                    to: 9,
                    shard: 0,
                    mark,
                    is_signed: false,
                };
                assert_eq!(seen(&frame, variant), Some(expected));
                assert_eq!(frame.len(), BEFORE + variant.overhead_bytes() + 14);
                assert_eq!(
                    internet_checksum(&frame[14..34]),
                    0,
                    "expected a correct checksum in the IPv4 header"
                );
            }
        }
        assert_eq!(seen(&[0; 60], Variant::Tagged), None);
    }
}
