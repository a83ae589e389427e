//! A stamped packet in its Ethernet frame: parses the headers, and locates signature and link.

use std::ops::Range;

use aom::wire::{HEADER_BYTES, LINK_BYTES, SIGNATURE_BYTES, UDP_PORT};

const ETHERNET_BYTES: usize = 14;
const IPV4_BYTES: usize = 20;
const UDP_BYTES: usize = 8;
/// The offset of the UDP payload. It is fixed, since the sequencer stamps no frames that have VLAN tags or IPv4
/// options.
const PAYLOAD: usize = ETHERNET_BYTES + IPV4_BYTES + UDP_BYTES;

pub const SIGNATURE: Range<usize> =
    PAYLOAD + HEADER_BYTES..PAYLOAD + HEADER_BYTES + SIGNATURE_BYTES;
pub const LINK: Range<usize> = SIGNATURE.end..SIGNATURE.end + LINK_BYTES;

/// The UDP payload of a frame to AOM's port; `None` for other frames and truncated ones.
#[must_use]
pub fn payload_of(frame: &[u8]) -> Option<&[u8]> {
    let (headers, rest) = frame.split_at_checked(PAYLOAD)?;
    let word = |at: usize| u16::from_be_bytes([headers[at], headers[at + 1]]);
    let is_ipv4 = word(12) == 0x0800 && headers[14] == 0x45;
    let is_whole = word(20) & 0x3fff == 0 && headers[23] == 17;
    let is_ours = is_ipv4 && is_whole && word(36) == UDP_PORT;
    let n_bytes = usize::from(word(38)).checked_sub(UDP_BYTES)?;
    rest.get(..n_bytes).filter(|_| is_ours)
}
