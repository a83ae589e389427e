//! Sequencers that run inside the test, and helpers that collect receivers' events.

use std::time::Duration;

use aom::chain::{ChainId, FIRST_LINK, Hash, NO_MESSAGE, hash_of, state_of, to_wire};
use aom::confirm::Confirming;
use aom::event::Event;
use aom::half_siphash::{Key, tag};
use aom::membership::{Membership, Sequencer};
use aom::receiver::Receiver;
use aom::wire::{Authenticator, LANES, Packet, Stamp, digest_of};
use k256::ecdsa::SigningKey;
use k256::ecdsa::signature::hazmat::PrehashSigner;

pub const GROUP: u16 = 7;
pub const NOW: Duration = Duration::from_secs(1);

/// The sequencer of AOM-HM, the variant whose packets carry a keyed tag for each receiver. It has the keys of all
/// receivers.
pub struct Tagging {
    pub epoch: u64,
    pub keys: Vec<Key>,
}

impl Tagging {
    pub fn new(n_receivers: u8, epoch: u64) -> Tagging {
        let mut random = fastrand::Rng::with_seed(epoch);
        let keys = (0..n_receivers.div_ceil(4) * 4)
            .map(|_| Key {
                k0: random.u32(..),
                k1: random.u32(..),
            })
            .collect();
        Tagging { epoch, keys }
    }

    /// Makes one packet for each shard. A shard is up to `LANES` (four) receivers.
    pub fn packets(&self, sequence: u32, message: &[u8]) -> Vec<Vec<u8>> {
        let digest = digest_of(message);
        let shards = self.keys.chunks(LANES).zip(0..);
        shards
            .map(|(keys, shard)| {
                let stamp = Stamp {
                    epoch: self.epoch as u32,
                    shard,
                    group: GROUP,
                    sequence,
                    digest,
                };
                let tags = std::array::from_fn(|lane| tag(keys[lane], &stamp));
                Packet {
                    stamp,
                    authenticator: Authenticator::Tags(tags),
                    message,
                }
                .write()
            })
            .collect()
    }

    pub fn membership(&self, n_receivers: u8, receiver: u8) -> Membership {
        Membership {
            group: GROUP,
            epoch: self.epoch,
            n_receivers,
            receiver,
            sequencer: Sequencer::Tagging(self.keys[usize::from(receiver)]),
            confirm_keys: Vec::new(),
        }
    }

    pub fn receiver(&self, n_receivers: u8, receiver: u8) -> Receiver {
        Receiver::new(self.membership(n_receivers, receiver), 1).expect("a membership")
    }

    /// Returns the same membership as `membership`, but with the members' public confirm keys, for Byzantine mode.
    pub fn byzantine_membership(&self, n_members: u8, member: u8) -> Membership {
        Membership {
            confirm_keys: (0..n_members)
                .map(|member| *key_of(member).verifying_key())
                .collect(),
            ..self.membership(n_members, member)
        }
    }

    pub fn byzantine(&self, n_members: u8, member: u8) -> Confirming {
        let membership = self.byzantine_membership(n_members, member);
        Confirming::new(membership, 1, key_of(member)).expect("a membership")
    }
}

/// The switch and the coprocessor of AOM-PK, the variant in which hashes link the packets to a chain and some packets
/// are signed.
pub struct Signing {
    pub epoch: u64,
    pub key: SigningKey,
    last: (u32, Hash),
}

impl Signing {
    pub fn new(epoch: u64) -> Signing {
        let key = [epoch as u8 + 1; 32];
        Signing {
            epoch,
            key: SigningKey::from_bytes(&key.into()).expect("a key of the curve"),
            last: (0, FIRST_LINK),
        }
    }

    fn chain(&self) -> ChainId {
        ChainId {
            group: GROUP,
            epoch: self.epoch as u32,
        }
    }

    /// Makes the next packet of the chain.
    pub fn packet(&mut self, message: &[u8], is_signed: bool) -> Vec<u8> {
        let (sequence, link) = (self.last.0 + 1, self.last.1);
        let state = state_of(self.chain(), &link, &hash_of(message), sequence);
        self.last = (sequence, state);
        self.packet_of(sequence, link, message, is_signed)
    }

    /// Makes the next packet of the chain. The packet's digest is wrong, so the chain contains the packet's sequence
    /// number without a message.
    pub fn void_packet(&mut self, message: &[u8], is_signed: bool) -> Vec<u8> {
        let (sequence, link) = (self.last.0 + 1, self.last.1);
        let state = state_of(self.chain(), &link, &NO_MESSAGE, sequence);
        self.last = (sequence, state);
        let digest = digest_of(b"what the sender says that it is");
        self.packet_with((sequence, digest), (state, link), message, is_signed)
    }

    /// Makes a packet with any sequence number and link. The packet does not extend the chain.
    pub fn packet_of(&self, sequence: u32, link: Hash, message: &[u8], is_signed: bool) -> Vec<u8> {
        let state = state_of(self.chain(), &link, &hash_of(message), sequence);
        self.packet_with(
            (sequence, digest_of(message)),
            (state, link),
            message,
            is_signed,
        )
    }

    fn packet_with(
        &self,
        (sequence, digest): (u32, [u8; 8]),
        (state, link): (Hash, Hash),
        message: &[u8],
        is_signed: bool,
    ) -> Vec<u8> {
        let signature = self.key.sign_prehash(&state).expect("a hash is signed");
        let stamp = Stamp {
            epoch: self.epoch as u32,
            shard: 0,
            group: GROUP,
            sequence,
            digest,
        };
        let signature = is_signed.then(|| to_wire(&signature));
        Packet {
            stamp,
            authenticator: Authenticator::Chained { signature, link },
            message,
        }
        .write()
    }

    pub fn membership(&self, n_receivers: u8, receiver: u8) -> Membership {
        Membership {
            group: GROUP,
            epoch: self.epoch,
            n_receivers,
            receiver,
            sequencer: Sequencer::Signing(*self.key.verifying_key()),
            confirm_keys: Vec::new(),
        }
    }

    pub fn receiver(&self) -> Receiver {
        Receiver::new(self.membership(4, 0), 1).expect("a membership")
    }
}

/// Returns the key with which a member signs its confirm messages.
pub fn key_of(member: u8) -> SigningKey {
    SigningKey::from_bytes(&[member + 1; 32].into()).expect("a key of the curve")
}

pub fn events(receiver: &mut Receiver) -> Vec<Event> {
    std::iter::from_fn(|| receiver.poll_event()).collect()
}

/// Returns the delivered messages with their sequence numbers; `None` stands for a drop.
pub fn delivered(receiver: &mut Receiver) -> Vec<(u32, Option<Vec<u8>>)> {
    numbers_of(events(receiver))
}

/// Converts events of any receiver to the form that `delivered` returns.
pub fn numbers_of(events: Vec<Event>) -> Vec<(u32, Option<Vec<u8>>)> {
    let mut numbers = Vec::new();
    for event in events {
        match event {
            Event::Message(message) => numbers.push((message.sequence, Some(message.payload))),
            Event::Drop(drop) => numbers.extend(drop.numbers().map(|number| (number, None))),
            Event::Evidence(evidence) => unreachable!("{evidence:?}"),
        }
    }
    numbers
}

pub fn message(sequence: u32) -> Vec<u8> {
    format!("message {sequence}").into_bytes()
}
