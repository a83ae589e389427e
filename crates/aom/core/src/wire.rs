//! Reads and writes the datagrams of authenticated ordered multicast (docs/aom.md, "On the wire").
//!
//! All numbers are big endian. A request is as long as the packets that the sequencer makes from it, so no step changes
//! a packet's length.

use sha2::{Digest, Sha256};

use crate::chain::ChainId;
use crate::confirm::Confirm;

/// The UDP port of requests.
pub const UDP_PORT: u16 = 60004;
/// The length of the header that requests, tagged and signed packets share.
pub const HEADER_BYTES: usize = 20;
/// The number of tags in a packet.
pub const LANES: usize = 4;
/// The length of a tagged packet's header and tags. The message follows them.
pub const TAGGED_BYTES: usize = HEADER_BYTES + 4 * LANES;
/// The length of a signature: r and s as one string of bytes, reversed.
pub const SIGNATURE_BYTES: usize = 64;
/// The length of a link: the predecessor's state.
pub const LINK_BYTES: usize = 32;
/// The length of a signed packet's header, signature and link. The message follows them.
pub const SIGNED_BYTES: usize = HEADER_BYTES + SIGNATURE_BYTES + LINK_BYTES;

/// How the sequencer authenticates a group's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    /// AOM-HM: a tag for each receiver.
    Tagged,
    /// AOM-PK: signatures and a chain of hashes.
    Signed,
}

impl Variant {
    /// The offset of the message in a datagram.
    #[must_use]
    pub fn overhead_bytes(self) -> usize {
        match self {
            Variant::Tagged => TAGGED_BYTES,
            Variant::Signed => SIGNED_BYTES,
        }
    }
}

/// The first byte of a datagram; it is not authenticated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Request = 1,
    Tagged = 2,
    Signed = 3,
    /// A member's confirm to the other members.
    Confirm = 4,
}

/// What the sequencer writes into a packet's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// The epoch of the sequence number.
    pub epoch: u32,
    /// The shard whose four tags the packet carries; 0 in a signed packet.
    pub shard: u8,
    /// The group's number.
    pub group: u16,
    /// The sequence number, from 1 on; 0 is invalid.
    pub sequence: u32,
    /// The first 8 bytes of SHA-256(message), as the sender claims.
    pub digest: [u8; 8],
}

/// A packet of the sequencer, parsed but not verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The sequencer's stamp.
    pub stamp: Stamp,
    /// The proof of the stamp.
    pub authenticator: Authenticator,
    /// The sender's payload.
    pub message: &'a [u8],
}

/// The proof of a stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authenticator {
    /// The tags for the four receivers of a shard.
    Tags([u32; LANES]),
    /// A link of the chain, and possibly a signature.
    Chained {
        /// The signature in the wire's byte order; `None` if only a later packet is signed.
        signature: Option<[u8; SIGNATURE_BYTES]>,
        /// The predecessor's state.
        link: [u8; LINK_BYTES],
    },
}

/// A member's confirm message ([`crate::confirm`]), parsed but not verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfirmPacket {
    /// The group's number.
    pub group: u16,
    /// The epoch of the sequence number.
    pub epoch: u32,
    /// The member's statement.
    pub confirm: Confirm,
}

/// The length of a confirm message's header: kind, epoch, member, group, sequence number.
const CONFIRM_HEADER_BYTES: usize = 12;

impl ConfirmPacket {
    /// Reads a UDP payload; `None` if it is not a confirm message.
    #[must_use]
    pub fn read(datagram: &[u8]) -> Option<ConfirmPacket> {
        let (header, rest) = datagram.split_first_chunk::<CONFIRM_HEADER_BYTES>()?;
        let [kind, e0, e1, e2, e3, member, g0, g1, s0, s1, s2, s3] = *header;
        let (hash, rest) = rest.split_first_chunk()?;
        let signature = <[u8; SIGNATURE_BYTES]>::try_from(rest).ok()?;
        (kind == Kind::Confirm as u8).then(|| ConfirmPacket {
            group: u16::from_be_bytes([g0, g1]),
            epoch: u32::from_be_bytes([e0, e1, e2, e3]),
            confirm: Confirm {
                member,
                sequence: u32::from_be_bytes([s0, s1, s2, s3]),
                hash: *hash,
                signature,
            },
        })
    }

    /// Serializes the confirm message as a UDP payload.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let Confirm {
            member,
            sequence,
            hash,
            signature,
        } = self.confirm;
        let mut datagram = vec![Kind::Confirm as u8];
        datagram.extend(self.epoch.to_be_bytes());
        datagram.push(member);
        datagram.extend(self.group.to_be_bytes());
        datagram.extend(sequence.to_be_bytes());
        datagram.extend(hash);
        datagram.extend(signature);
        datagram
    }
}

/// The reason why a datagram is not a packet of the sequencer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The datagram is shorter than its headers.
    #[error("expected {expected} bytes or more, found {found}")]
    Truncated {
        /// The length that the headers need.
        expected: usize,
        /// The length of the datagram.
        found: usize,
    },
    /// The kind is neither tagged nor signed.
    #[error("expected a tagged (2) or signed (3) packet, found kind {0}")]
    Kind(u8),
}

/// The digest that the sequencer stamps: the first 8 bytes of SHA-256(message).
#[must_use]
pub fn digest_of(message: &[u8]) -> [u8; 8] {
    let mut digest = [0; 8];
    digest.copy_from_slice(&Sha256::digest(message)[..8]);
    digest
}

/// Serializes a request to a group.
#[must_use]
pub fn request(variant: Variant, group: u16, message: &[u8]) -> Vec<u8> {
    let mut datagram = vec![0; variant.overhead_bytes() + message.len()];
    datagram[0] = Kind::Request as u8;
    datagram[6..8].copy_from_slice(&group.to_be_bytes());
    datagram[12..20].copy_from_slice(&digest_of(message));
    datagram[variant.overhead_bytes()..].copy_from_slice(message);
    datagram
}

impl<'a> Packet<'a> {
    /// Parses a UDP payload without verifying it.
    ///
    /// # Errors
    ///
    /// If the datagram is too short, or is neither a tagged nor a signed packet.
    pub fn read(datagram: &'a [u8]) -> Result<Packet<'a>, WireError> {
        let truncated = |expected| WireError::Truncated {
            expected,
            found: datagram.len(),
        };
        let Some((header, rest)) = datagram.split_first_chunk::<HEADER_BYTES>() else {
            return Err(truncated(HEADER_BYTES));
        };
        let (authenticator, message) = match header[0] {
            kind if kind == Kind::Tagged as u8 => {
                read_tags(rest).ok_or_else(|| truncated(TAGGED_BYTES))?
            }
            kind if kind == Kind::Signed as u8 => {
                read_chained(rest).ok_or_else(|| truncated(SIGNED_BYTES))?
            }
            kind => return Err(WireError::Kind(kind)),
        };
        Ok(Packet {
            stamp: Stamp::read(header),
            authenticator,
            message,
        })
    }

    /// Serializes the packet as a UDP payload.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let mut datagram = Vec::with_capacity(SIGNED_BYTES + self.message.len());
        let kind = match self.authenticator {
            Authenticator::Tags(_) => Kind::Tagged,
            Authenticator::Chained { .. } => Kind::Signed,
        };
        self.stamp.write(kind, &mut datagram);
        match self.authenticator {
            Authenticator::Tags(tags) => {
                datagram.extend(tags.into_iter().flat_map(u32::to_be_bytes));
            }
            Authenticator::Chained { signature, link } => {
                datagram.extend(signature.unwrap_or([0; SIGNATURE_BYTES]));
                datagram.extend(link);
            }
        }
        datagram.extend(self.message);
        datagram
    }
}

impl Stamp {
    /// The chain to which a signed packet belongs.
    #[must_use]
    pub fn chain(&self) -> ChainId {
        ChainId {
            group: self.group,
            epoch: self.epoch,
        }
    }

    fn read(header: &[u8; HEADER_BYTES]) -> Stamp {
        let [
            _,
            e0,
            e1,
            e2,
            e3,
            shard,
            g0,
            g1,
            s0,
            s1,
            s2,
            s3,
            digest @ ..,
        ] = *header;
        Stamp {
            epoch: u32::from_be_bytes([e0, e1, e2, e3]),
            shard,
            group: u16::from_be_bytes([g0, g1]),
            sequence: u32::from_be_bytes([s0, s1, s2, s3]),
            digest,
        }
    }

    fn write(&self, kind: Kind, datagram: &mut Vec<u8>) {
        datagram.push(kind as u8);
        datagram.extend(self.epoch.to_be_bytes());
        datagram.push(self.shard);
        datagram.extend(self.group.to_be_bytes());
        datagram.extend(self.sequence.to_be_bytes());
        datagram.extend(self.digest);
    }
}

fn read_tags(rest: &[u8]) -> Option<(Authenticator, &[u8])> {
    let (tags, message) = rest.split_first_chunk::<{ 4 * LANES }>()?;
    let tag = |lane: usize| {
        let at = 4 * lane;
        u32::from_be_bytes([tags[at], tags[at + 1], tags[at + 2], tags[at + 3]])
    };
    Some((Authenticator::Tags(std::array::from_fn(tag)), message))
}

/// Reads signature, link and message. A signature of zeros means that the packet is not signed: r and s of a real
/// signature are never zero.
fn read_chained(rest: &[u8]) -> Option<(Authenticator, &[u8])> {
    let (signature, rest) = rest.split_first_chunk::<SIGNATURE_BYTES>()?;
    let (link, message) = rest.split_first_chunk::<LINK_BYTES>()?;
    let signature = (*signature != [0; SIGNATURE_BYTES]).then_some(*signature);
    Some((
        Authenticator::Chained {
            signature,
            link: *link,
        },
        message,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp {
        epoch: 0x1112_1302,
        shard: 1,
        group: 0x0304,
        sequence: 0x0506_0708,
        digest: [9, 10, 11, 12, 13, 14, 15, 16],
    };

    fn packets() -> [Packet<'static>; 3] {
        let chained = |signature| Authenticator::Chained {
            signature,
            link: [7; LINK_BYTES],
        };
        [
            Authenticator::Tags([1, 2, 3, 0xdead_beef]),
            chained(Some([5; SIGNATURE_BYTES])),
            chained(None),
        ]
        .map(|authenticator| Packet {
            stamp: STAMP,
            authenticator,
            message: b"message",
        })
    }

    #[test]
    fn what_is_written_is_read() {
        for packet in packets() {
            assert_eq!(Packet::read(&packet.write()), Ok(packet));
        }
    }

    #[test]
    fn the_header_is_as_the_switch_has_it() {
        let [tagged, ..] = packets();
        let expected = [
            2, 0x11, 0x12, 0x13, 2, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, //
            0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0xde, 0xad, 0xbe, 0xef,
        ];
        assert_eq!(tagged.write(), [&expected[..], b"message"].concat());
    }

    #[test]
    fn a_request_is_as_long_as_what_is_made_of_it() {
        for (variant, packet) in [(Variant::Tagged, 0), (Variant::Signed, 1)] {
            let request = request(variant, 0x0304, b"message");
            assert_eq!(request.len(), packets()[packet].write().len());
            assert_eq!(request[..8], [1, 0, 0, 0, 0, 0, 3, 4]);
            // The first 8 bytes of SHA-256("message").
            assert_eq!(
                request[12..20],
                [0xab, 0x53, 0x0a, 0x13, 0xe4, 0x59, 0x14, 0x98]
            );
            assert_eq!(Packet::read(&request), Err(WireError::Kind(1)));
        }
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        for packet in packets() {
            let whole = packet.write();
            for n_bytes in 0..whole.len() - b"message".len() {
                assert!(matches!(
                    Packet::read(&whole[..n_bytes]),
                    Err(WireError::Truncated { found, .. }) if found == n_bytes
                ));
            }
        }
    }
}
