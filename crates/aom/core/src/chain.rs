//! AOM-PK: packets are linked by hashes, and some of the packets are signed.
//!
//! A packet's state is SHA-256 of its block: link, SHA-256 of the message, sequence number, group, epoch. The link is
//! the predecessor's state, so a signature on a state covers all packets before it. One key signs the chains of all
//! groups and epochs; group and epoch in the block keep the chains apart. Different packets have different blocks, so
//! two packets with the same state are a collision of SHA-256.
//!
//! The coprocessor that NeoBFT's authors published has a shorter block without group and epoch, in which the second
//! half of the link and the first half of the message's hash overlap by XOR. In this form two packets already have the
//! same block if 128 bits of their hashes collide. Only group 0 in epoch 0 uses this form, so that the published test
//! vectors hold; the configuration service assigns neither group 0 nor epoch 0. The two forms differ in length, so no
//! block has both forms.

use k256::ecdsa::signature::hazmat::PrehashVerifier;
use k256::ecdsa::{Signature, VerifyingKey};
use sha2::{Digest, Sha256};

use crate::wire::{LINK_BYTES, SIGNATURE_BYTES};

/// The SHA-256 of a message or of a block. The SHA-256 of a block is a packet's state.
pub type Hash = [u8; 32];

/// The published block's length: link and message hash overlap by 16 bytes.
const PUBLISHED_BLOCK_BYTES: usize = LINK_BYTES + 16 + 4;
/// The only chain that uses the published block.
const PUBLISHED_CHAIN: ChainId = ChainId { group: 0, epoch: 0 };

/// Identifies a chain: each epoch of a group has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChainId {
    /// The group's number.
    pub group: u16,
    /// The epoch as on the wire.
    pub epoch: u32,
}

/// The link of an epoch's first packet.
pub const FIRST_LINK: Hash = [0; LINK_BYTES];

/// Stands in for a message's hash in a block if the request's digest was wrong: the sequence number then has no
/// message. Nobody knows a message with this SHA-256.
pub const NO_MESSAGE: Hash = [0; 32];

/// Computes the SHA-256 of a message.
#[must_use]
pub fn hash_of(message: &[u8]) -> Hash {
    Sha256::digest(message).into()
}

/// Computes the state of the packet with this link, message hash and sequence number.
#[must_use]
pub fn state_of(chain: ChainId, link: &Hash, message: &Hash, sequence: u32) -> Hash {
    if chain == PUBLISHED_CHAIN {
        return published_state_of(link, message, sequence);
    }
    Sha256::new_with_prefix(link)
        .chain_update(message)
        .chain_update(sequence.to_be_bytes())
        .chain_update(chain.group.to_be_bytes())
        .chain_update(chain.epoch.to_be_bytes())
        .finalize()
        .into()
}

fn published_state_of(link: &Hash, message: &Hash, sequence: u32) -> Hash {
    let mut block = [0; PUBLISHED_BLOCK_BYTES];
    block[..LINK_BYTES].copy_from_slice(link);
    for (byte, of_message) in block[16..48].iter_mut().zip(message) {
        *byte ^= of_message;
    }
    block[48..].copy_from_slice(&sequence.to_be_bytes());
    Sha256::digest(block).into()
}

/// Verifies a signature of a state. Accepts both valid forms, (r, s) and (r, -s), because the published coprocessor
/// sends either.
#[must_use]
pub fn verify(key: &VerifyingKey, state: &Hash, signature: &[u8; SIGNATURE_BYTES]) -> bool {
    let mut bytes = *signature;
    bytes.reverse();
    let Ok(signature) = Signature::from_slice(&bytes) else {
        return false;
    };
    let signature = signature.normalize_s().unwrap_or(signature);
    key.verify_prehash(state, &signature).is_ok()
}

/// Converts a signature to its wire form: r and s as one string of bytes, reversed.
#[must_use]
pub fn to_wire(signature: &Signature) -> [u8; SIGNATURE_BYTES] {
    let mut bytes: [u8; SIGNATURE_BYTES] = signature.to_bytes().into();
    bytes.reverse();
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        let byte = |at: usize| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("hex");
        std::array::from_fn(byte)
    }

    fn published_key() -> VerifyingKey {
        let mut point = vec![4];
        for coordinate in [
            "9aa20c8c9979c2794014d04f4b01dcd9777d0bf79da53b02dda9598949d24fc7",
            "42dd98759b2bb5f2c1984f8410097484a0d025f45181d42ec3c3d08ee5ea4385",
        ] {
            point.extend(bytes::<32>(coordinate));
        }
        VerifyingKey::from_sec1_bytes(&point).expect("a point of the curve")
    }

    /// The published test vectors: message hash, state, signature. Both packets have sequence number 1 and no
    /// predecessor.
    const PUBLISHED: [(&str, &str, &str); 2] = [
        (
            "f3d48b51ee935b0a609b56e164264340e4cab21f58f35acd432a1b3c3945473f",
            "501a1ceb657cbdcabeaa794978d13e755d49db359c42260bae8313dd813d0b92",
            concat!(
                "bbe5f34cda2edf549b9ff97287573451cad50229b8c9ac2eaaf77a08c9ce7cb8",
                "f936e0bc13f10186b0996f8345c831b529529df8854f344910c35892018a30f9"
            ),
        ),
        (
            "e3eeb90ef31784b92a3fbbee4743a910dc07e7e9c18c88d7ae387e6690a9a0f6",
            "06733e733c430607085480f8ae2544b6f9358bd8140d0cb134065a7907c1b0f7",
            concat!(
                "327275240ef10a2c7dece79abde782da8a82c93a9d21909c13651250f6d9ef9f",
                "f936e0bc13f10186b0996f8345c831b529529df8854f344910c35892018a30f9"
            ),
        ),
    ];

    #[test]
    fn states_and_signatures_of_the_published_coprocessor_are_verified() {
        let key = published_key();
        for (digest, state, signature) in PUBLISHED {
            let found = state_of(PUBLISHED_CHAIN, &FIRST_LINK, &bytes(digest), 1);
            assert_eq!(found, bytes(state));
            let mut signature = bytes(signature);
            assert!(verify(&key, &found, &signature));
            for bit in 0..8 * SIGNATURE_BYTES {
                signature[bit / 8] ^= 1 << (bit % 8);
                assert!(!verify(&key, &found, &signature), "bit {bit}");
                signature[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }

    /// In the published block the second half of the link is XORed with the first half of the message's hash.
    #[test]
    fn what_is_moved_from_the_message_to_the_link_is_another_state_but_in_the_published_chain() {
        let (link, message) = ([3; 32], [5; 32]);
        let (mut other_link, mut other_message) = (link, message);
        other_link[20] ^= 0x40;
        other_message[4] ^= 0x40;
        let pair = |chain| {
            let first = state_of(chain, &link, &message, 7);
            (first, state_of(chain, &other_link, &other_message, 7))
        };
        let (first, second) = pair(PUBLISHED_CHAIN);
        assert_eq!(first, second);
        for (group, epoch) in [(0, 1), (1, 0), (7, 1), (7, u32::MAX)] {
            let (first, second) = pair(ChainId { group, epoch });
            assert_ne!(first, second, "group {group}, epoch {epoch}");
        }
    }

    #[test]
    fn every_bit_of_a_block_changes_the_state() {
        let (link, message) = ([3; 32], [5; 32]);
        let chain = ChainId { group: 3, epoch: 9 };
        let before = state_of(chain, &link, &message, 7);
        for bit in 0..256 {
            let flipped = |mut hash: Hash| {
                hash[bit / 8] ^= 1 << (bit % 8);
                hash
            };
            assert_ne!(state_of(chain, &flipped(link), &message, 7), before);
            assert_ne!(state_of(chain, &link, &flipped(message), 7), before);
        }
        for bit in 0..32 {
            assert_ne!(state_of(chain, &link, &message, 7 ^ (1 << bit)), before);
        }
        for (group, epoch) in [
            (0, 0),
            (0, 9),
            (3, 0),
            (3, 8),
            (2, 9),
            (9, 3),
            (3, 9 + 256),
            (3, 9 << 8),
            (3, 9 | 1 << 31),
        ] {
            assert_ne!(
                state_of(ChainId { group, epoch }, &link, &message, 7),
                before
            );
        }
    }
}
