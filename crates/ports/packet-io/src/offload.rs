//! Finishes what the sender's kernel leaves to the network card: checksums, VLAN tags, and the cutting of super-frames
//! into segments.
//!
//! On a virtual link there is no card, so a frame from a local socket arrives unfinished: its
//! transport checksum holds only the pseudo-header's sum, its VLAN tag is in the metadata, and it
//! may be a super-frame of up to 64 KiB that a card would have cut. Nothing here does I/O.

mod checksum;
mod partial_checksum;
mod segment;

pub use checksum::{complete_checksum, internet_checksum};
pub use partial_checksum::complete_partial_checksum;
pub use segment::{Segmentation, Transport, segment};

/// Bytes of an IEEE 802.1Q tag.
pub const VLAN_TAG_BYTES: usize = 4;

/// The EtherType of an outer tag, IEEE 802.1ad.
const ETHER_TYPE_VLAN_OUTER: u16 = 0x88a8;

/// Bytes of the destination and source addresses, which a VLAN tag follows.
const ADDRESSES_BYTES: usize = 12;

/// Puts a VLAN tag into a frame. Before the call the frame begins at offset [`VLAN_TAG_BYTES`] of `buffer`; afterwards
/// the frame fills the whole buffer. Moves only 12 bytes. Returns false for a frame shorter than an Ethernet header,
/// which gets no tag.
pub fn insert_vlan_tag(buffer: &mut [u8], tpid: u16, tci: u16) -> bool {
    if buffer.len() < VLAN_TAG_BYTES + crate::limits::MIN_FRAME_BYTES {
        return false;
    }
    buffer.copy_within(VLAN_TAG_BYTES..VLAN_TAG_BYTES + ADDRESSES_BYTES, 0);
    buffer[ADDRESSES_BYTES..ADDRESSES_BYTES + 2].copy_from_slice(&tpid.to_be_bytes());
    buffer[ADDRESSES_BYTES + 2..ADDRESSES_BYTES + 4].copy_from_slice(&tci.to_be_bytes());
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vlan_tag_goes_between_addresses_and_ether_type() {
        let mut buffer = vec![0xee; VLAN_TAG_BYTES];
        buffer.extend([1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x08, 0x00, 0x45]);
        assert!(insert_vlan_tag(&mut buffer, 0x88a8, 0xa005));
        assert_eq!(
            buffer,
            [
                1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0x88, 0xa8, 0xa0, 0x05, 0x08, 0x00, 0x45
            ]
        );
    }

    #[test]
    fn a_frame_without_a_whole_header_gets_no_tag() {
        let mut buffer = [7; VLAN_TAG_BYTES + 13];
        assert!(!insert_vlan_tag(&mut buffer, 0x8100, 1));
        assert_eq!(buffer, [7; 17]);
    }
}
