//! AOM-HM: verifies this receiver's tag, collects the tags of all receivers.
//!
//! Only a packet with this receiver's own right tag proves that a number was given. Only such a packet moves
//! the window and starts a deadline. The other shards' packets of that number cannot be verified here. A
//! bounded number of them is kept as candidates until each shard has one with the proved digest.

use std::time::Duration;

use crate::certificate::{Proof, place_of};
use crate::chain::{Hash, hash_of};
use crate::half_siphash::{self, Key};
use crate::limits::CANDIDATES_MAX;
use crate::membership::Membership;
use crate::order::{Delivery, Order, Slot};
use crate::refused::Refusal;
use crate::wire::{LANES, Stamp};

#[derive(Debug)]
pub(crate) struct TaggedSlot {
    proved: Option<Proved>,
    /// By shard; the slot of this receiver's own shard has the proved packet.
    candidates: Vec<Vec<Candidate>>,
}

#[derive(Debug)]
struct Proved {
    at: Duration,
    digest: [u8; 8],
    hash: Hash,
    message: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    digest: [u8; 8],
    tags: [u32; LANES],
}

/// Takes a packet of this group and epoch.
pub(crate) fn take(
    order: &mut Order<TaggedSlot>,
    membership: &Membership,
    key: Key,
    now: Duration,
    (stamp, tags, message): (Stamp, [u32; LANES], &[u8]),
) -> Result<(), Refusal> {
    if stamp.shard >= membership.n_shards() {
        return Err(Refusal::WrongShard);
    }
    let candidate = Candidate {
        digest: stamp.digest,
        tags,
    };
    let (own_shard, lane) = place_of(membership.receiver);
    if stamp.shard != own_shard {
        return keep(order, membership, stamp, candidate);
    }
    if !half_siphash::verify(key, &stamp, tags[lane]) {
        return Err(Refusal::Forged);
    }
    let hash = hash_of(message);
    if hash[..8] != stamp.digest {
        return Err(Refusal::WrongDigest);
    }
    if let Some(first) = first_content(order, stamp.sequence) {
        if first != hash {
            order.tell_evidence(stamp.sequence, first, hash);
        }
        return Err(Refusal::Replayed);
    }
    if u64::from(stamp.sequence) < order.next() {
        return Err(Refusal::Replayed);
    }
    order.make_room(stamp.sequence, stamp.sequence);
    let slot = order.slot(stamp.sequence, || TaggedSlot::of(membership));
    slot.proved = Some(Proved {
        at: now,
        digest: stamp.digest,
        hash,
        message: message.to_vec(),
    });
    slot.candidates[usize::from(own_shard)] = vec![candidate];
    Ok(())
}

/// The digest of a number that is or was proved.
fn first_content(order: &Order<TaggedSlot>, sequence: u32) -> Option<Hash> {
    let number = u64::from(sequence);
    let proved = order.known(number).and_then(|slot| slot.proved.as_ref());
    proved
        .map(|proved| proved.hash)
        .or_else(|| order.delivered(number))
}

/// Takes a packet of another shard: it waits for the proof of its number.
fn keep(
    order: &mut Order<TaggedSlot>,
    membership: &Membership,
    stamp: Stamp,
    candidate: Candidate,
) -> Result<(), Refusal> {
    if u64::from(stamp.sequence) < order.next() {
        return Err(Refusal::Replayed);
    }
    if order.is_beyond(stamp.sequence) {
        return Err(Refusal::BeyondWindow);
    }
    let slot = order.slot(stamp.sequence, || TaggedSlot::of(membership));
    let candidates = &mut slot.candidates[usize::from(stamp.shard)];
    if candidates.contains(&candidate) {
        return Err(Refusal::Replayed);
    }
    if candidates.len() == CANDIDATES_MAX {
        return Err(Refusal::TooMany);
    }
    candidates.push(candidate);
    Ok(())
}

impl TaggedSlot {
    fn of(membership: &Membership) -> TaggedSlot {
        TaggedSlot {
            proved: None,
            candidates: vec![Vec::new(); usize::from(membership.n_shards())],
        }
    }

    /// The tags of all shards with the proved digest.
    fn vector(&self) -> Option<Vec<[u32; LANES]>> {
        let digest = self.proved.as_ref()?.digest;
        let of_shard = |candidates: &Vec<Candidate>| {
            let mut candidates = candidates.iter();
            candidates
                .find(|candidate| candidate.digest == digest)
                .map(|candidate| candidate.tags)
        };
        self.candidates.iter().map(of_shard).collect()
    }
}

impl Slot for TaggedSlot {
    fn proved_at(&self) -> Option<Duration> {
        self.proved.as_ref().map(|proved| proved.at)
    }

    fn is_whole(&self) -> bool {
        self.vector().is_some()
    }

    fn into_delivery(self) -> Option<Delivery> {
        let tags = self.vector()?;
        let proved = self.proved?;
        Some(Delivery {
            payload: proved.message,
            hash: proved.hash,
            proof: Proof::Tags(tags),
        })
    }
}
