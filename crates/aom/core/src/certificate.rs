//! Certificates: proofs of a message's sequence number that a member shows to another member.

use k256::ecdsa::VerifyingKey;

use crate::chain::{self, ChainId, Hash, hash_of, state_of};
use crate::confirm::Confirm;
use crate::half_siphash;
use crate::limits::CANDIDATES_MAX;
use crate::membership::{Membership, Sequencer};
use crate::wire::{LANES, LINK_BYTES, SIGNATURE_BYTES, Stamp};

/// Proves a message's sequence number to another member of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    /// The group's number.
    pub group: u16,
    /// The epoch that the sequence number belongs to.
    pub epoch: u64,
    /// The sequence number that is proved.
    pub sequence: u32,
    /// What the other member verifies.
    pub proof: Proof,
}

/// The proof in a certificate. Its form depends on the group: whether the group uses AOM-HM (tags) or AOM-PK
/// (signatures), and whether it is Byzantine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// AOM-HM: the tags of all receivers. The prover can verify only its own tag, so it may have several sets of tags
    /// for a shard (four receivers), some of them forged. Each verifier finds its own right tag among them.
    Tags(Vec<ShardTags>),
    /// AOM-PK: the sequencer's signature on this packet, or on a later packet of the same chain ([`chain`]).
    Signed {
        /// The state of the packet's predecessor in the chain: a hash of the predecessor and of the predecessor's own
        /// link.
        link: Hash,
        /// The SHA-256 of each later message of the chain, up to the message of the signed packet.
        later: Vec<Hash>,
        /// The signature in the wire's byte order.
        signature: [u8; SIGNATURE_BYTES],
    },
    /// Byzantine network mode: statements of a quorum of members that they received this message. No two different
    /// messages can both have a quorum.
    Confirmed(Vec<Confirm>),
}

/// Tags of a shard's four receivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardTags {
    /// The shard's number.
    pub shard: u8,
    /// The tags of the shard's four receivers, in the order of their numbers.
    pub tags: [u32; LANES],
}

/// The reason why `Certificate::from_bytes` refuses some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    /// The bytes end inside the certificate, or continue after its end.
    #[error("expected a certificate of {expected} bytes or more, found {found}")]
    Length {
        /// The length that the first bytes imply.
        expected: usize,
        /// The length of the input.
        found: usize,
    },
    /// The first byte is no known kind of proof.
    #[error("expected tags (1), a signature (2) or confirms (3), found kind of proof {0}")]
    Proof(u8),
}

impl Certificate {
    /// Returns whether the proof is valid for this message, epoch and sequence number. Uses this member's own tag, the
    /// sequencer's public key or the members' confirm keys.
    #[must_use]
    pub fn verify(&self, membership: &Membership, message: &[u8]) -> bool {
        if (self.group, self.epoch) != (membership.group, membership.epoch) || self.sequence == 0 {
            return false;
        }
        let hash = hash_of(message);
        match (&self.proof, membership.sequencer) {
            (Proof::Tags(tags), Sequencer::Tagging(key)) => {
                // In Byzantine mode tags prove nothing: the sequencer may have sent other members another message.
                membership.confirm_keys.is_empty() && self.verify_tag(membership, tags, key, &hash)
            }
            (
                Proof::Signed {
                    link,
                    later,
                    signature,
                },
                Sequencer::Signing(key),
            ) => {
                let chain = membership.chain();
                let state = state_of(chain, link, &hash, self.sequence);
                membership.confirm_keys.is_empty()
                    && self.verify_chain(chain, &key, state, later, signature)
            }
            (Proof::Confirmed(confirms), _) => self.verify_confirms(membership, confirms, &hash),
            _ => false,
        }
    }

    fn verify_tag(
        &self,
        membership: &Membership,
        tags: &[ShardTags],
        key: half_siphash::Key,
        hash: &Hash,
    ) -> bool {
        let (shard, lane) = place_of(membership.receiver);
        let mut digest = [0; 8];
        digest.copy_from_slice(&hash[..8]);
        let stamp = Stamp {
            epoch: membership.epoch_on_the_wire(),
            shard,
            group: self.group,
            sequence: self.sequence,
            digest,
        };
        // Each set of tags is one guess at this member's tag, so we try at most as many sets as an honest prover sends.
        let mut variants = tags
            .iter()
            .filter(|of| of.shard == shard)
            .take(CANDIDATES_MAX);
        variants.any(|variant| half_siphash::verify(key, &stamp, variant.tags[lane]))
    }

    /// Computes the chain from the packet's state to the signed state, and verifies the signature.
    fn verify_chain(
        &self,
        chain: ChainId,
        key: &VerifyingKey,
        mut state: Hash,
        later: &[Hash],
        signature: &[u8; SIGNATURE_BYTES],
    ) -> bool {
        let mut number = self.sequence;
        for hash in later {
            let Some(next) = number.checked_add(1) else {
                return false;
            };
            number = next;
            state = state_of(chain, &state, hash, number);
        }
        chain::verify(key, &state, signature)
    }

    fn verify_confirms(&self, membership: &Membership, confirms: &[Confirm], hash: &Hash) -> bool {
        let mut members: Vec<u8> = Vec::new();
        for confirm in confirms {
            let is_of_this = confirm.sequence == self.sequence && confirm.hash == *hash;
            if is_of_this && !members.contains(&confirm.member) && confirm.verify(membership) {
                members.push(confirm.member);
            }
        }
        members.len() >= membership.quorum()
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.proof {
            Proof::Tags(tags) => size_of_val(tags.as_slice()),
            Proof::Signed { later, .. } => size_of_val(later.as_slice()),
            Proof::Confirmed(confirms) => size_of_val(confirms.as_slice()),
        }
    }

    /// Serializes the certificate for another member.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![match self.proof {
            Proof::Tags(_) => TAGS,
            Proof::Signed { .. } => SIGNED,
            Proof::Confirmed(_) => CONFIRMED,
        }];
        bytes.extend(self.group.to_be_bytes());
        bytes.extend(self.epoch.to_be_bytes());
        bytes.extend(self.sequence.to_be_bytes());
        match &self.proof {
            Proof::Tags(tags) => {
                for ShardTags { shard, tags } in tags {
                    bytes.push(*shard);
                    bytes.extend(tags.iter().flat_map(|tag| tag.to_be_bytes()));
                }
            }
            Proof::Signed {
                link,
                later,
                signature,
            } => {
                bytes.extend(signature);
                bytes.extend(link);
                bytes.extend(later.iter().flatten());
            }
            Proof::Confirmed(confirms) => {
                for confirm in confirms {
                    bytes.push(confirm.member);
                    bytes.extend(confirm.hash);
                    bytes.extend(confirm.signature);
                }
            }
        }
        bytes
    }

    /// Reads bytes that [`to_bytes`](Self::to_bytes) wrote. Checks the form only; [`verify`](Self::verify) checks the
    /// proof.
    ///
    /// # Errors
    ///
    /// If the bytes are not a whole certificate.
    pub fn from_bytes(bytes: &[u8]) -> Result<Certificate, CertificateError> {
        let length = |expected| CertificateError::Length {
            expected,
            found: bytes.len(),
        };
        let Some((head, rest)) = bytes.split_first_chunk::<HEAD_BYTES>() else {
            return Err(length(HEAD_BYTES));
        };
        let [kind, g0, g1, e0, e1, e2, e3, e4, e5, e6, e7, s0, s1, s2, s3] = *head;
        let group = u16::from_be_bytes([g0, g1]);
        let epoch = u64::from_be_bytes([e0, e1, e2, e3, e4, e5, e6, e7]);
        let sequence = u32::from_be_bytes([s0, s1, s2, s3]);
        let pieces_of = |rest: &[u8], piece_bytes: usize, head_bytes: usize| {
            let n_missing = rest.len().next_multiple_of(piece_bytes) - rest.len();
            match n_missing {
                0 => Ok(()),
                _ => Err(length(head_bytes + rest.len() + n_missing)),
            }
        };
        let proof = match kind {
            TAGS => {
                pieces_of(rest, SHARD_TAGS_BYTES, HEAD_BYTES)?;
                Proof::Tags(rest.chunks_exact(SHARD_TAGS_BYTES).map(tags_of).collect())
            }
            SIGNED => {
                let head_bytes = HEAD_BYTES + SIGNATURE_BYTES + LINK_BYTES;
                let whole = rest.split_first_chunk().and_then(|(signature, rest)| {
                    let (link, later) = rest.split_first_chunk()?;
                    Some((*signature, *link, later))
                });
                let (signature, link, later) = whole.ok_or_else(|| length(head_bytes))?;
                pieces_of(later, LINK_BYTES, head_bytes)?;
                Proof::Signed {
                    link,
                    later: later.chunks_exact(LINK_BYTES).map(array_of).collect(),
                    signature,
                }
            }
            CONFIRMED => {
                pieces_of(rest, CONFIRM_BYTES, HEAD_BYTES)?;
                let confirm = |piece: &[u8]| Confirm {
                    member: piece[0],
                    sequence,
                    hash: array_of(&piece[1..33]),
                    signature: array_of(&piece[33..]),
                };
                Proof::Confirmed(rest.chunks_exact(CONFIRM_BYTES).map(confirm).collect())
            }
            kind => return Err(CertificateError::Proof(kind)),
        };
        Ok(Certificate {
            group,
            epoch,
            sequence,
            proof,
        })
    }
}

const TAGS: u8 = 1;
const SIGNED: u8 = 2;
const CONFIRMED: u8 = 3;
/// The length of a certificate's head: kind of proof, group, epoch, sequence number.
const HEAD_BYTES: usize = 1 + 2 + 8 + 4;
/// The length of one set of tags in a certificate: the shard's number and its tags.
const SHARD_TAGS_BYTES: usize = 1 + 4 * LANES;
/// The length of one confirm in a certificate: member, hash and signature.
const CONFIRM_BYTES: usize = 1 + 32 + SIGNATURE_BYTES;

/// Panics if the slice has fewer than `N` bytes.
fn array_of<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}

fn tags_of(bytes: &[u8]) -> ShardTags {
    let tag = |lane: usize| u32::from_be_bytes(array_of(&bytes[1 + 4 * lane..]));
    ShardTags {
        shard: bytes[0],
        tags: std::array::from_fn(tag),
    }
}

/// Returns a receiver's shard, and the receiver's position among the shard's four.
pub(crate) fn place_of(receiver: u8) -> (u8, usize) {
    (receiver / LANES as u8, usize::from(receiver) % LANES)
}
