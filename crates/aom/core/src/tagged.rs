//! AOM-HM: verifies this receiver's own tag, and collects the tags of all receivers. A packet carries the tags of one
//! shard, which is four receivers.
//!
//! Only a packet with a right tag for this receiver proves that the sequencer assigned a sequence number, moves the
//! window and starts a timeout. This receiver cannot verify the packets of other shards, and anybody who can reach this
//! receiver can forge them. The receiver keeps a bounded number of such packets as candidates. All candidates with the
//! proved digest go into the certificate, so that each verifier finds its own right tag among them.
//!
//! The sequencer sends the packets of a sequence number in ascending order of their shards, and the network seldom
//! reorders them. So when the packet of this receiver's shard comes, the packets of lower shards have come and those of
//! higher shards have not. A candidate of a higher shard that came earlier is probably forged: if a shard has no other
//! candidate, the message waits for `SETTLE`. A forged packet of a higher shard may also come between the packet of
//! this receiver's shard and the genuine packet of the higher shard. It then completes the sequence number too early.
//! The genuine packet is still kept, for certificates that are requested later.
//!
//! The sequencer cannot compute the digest of a message, so it also stamps requests whose digest is wrong. A packet
//! with a right tag and a message that does not match the digest proves that the sequence number was assigned. It does
//! not prove that there is no message, since anybody who has seen the packet can replace its message. The genuine
//! packet comes before the packets of later sequence numbers. So the receiver gives up the sequence number when a later
//! sequence number is proved.

use std::time::Duration;

use crate::certificate::{Proof, ShardTags, place_of};
use crate::chain::{Hash, hash_of};
use crate::half_siphash::{self, Key};
use crate::limits::{CANDIDATES_MAX, SETTLE};
use crate::membership::Membership;
use crate::order::{Delivery, Order, Settled, Slot};
use crate::refused::Refusal;
use crate::wire::{LANES, Packet, Stamp};

#[derive(Debug)]
pub(crate) struct TaggedSlot {
    own_shard: u8,
    proved: Option<Proved>,
    /// The time of the first packet that had a right tag but a message that did not match the digest.
    hollow_at: Option<Duration>,
    /// A later sequence number was proved after `hollow_at`.
    is_void: bool,
    /// The candidates of each shard, the oldest first. After the proof all candidates have the proved digest.
    candidates: Vec<Vec<Candidate>>,
}

#[derive(Debug)]
struct Proved {
    at: Duration,
    digest: [u8; 8],
    hash: Hash,
    message: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Candidate {
    digest: [u8; 8],
    tags: [u32; LANES],
    /// The packet came before the sequence number was proved.
    is_early: bool,
}

/// Handles a packet of this group and epoch.
pub(crate) fn take(
    order: &mut Order<TaggedSlot>,
    membership: &Membership,
    key: Key,
    now: Duration,
    packet: &Packet<'_>,
    tags: [u32; LANES],
) -> Result<(), Refusal> {
    let Packet { stamp, message, .. } = *packet;
    if stamp.shard >= membership.n_shards() {
        return Err(Refusal::WrongShard);
    }
    let (own_shard, lane) = place_of(membership.receiver);
    if stamp.shard != own_shard {
        return keep(order, membership, &stamp, tags);
    }
    if !half_siphash::verify(key, &stamp, tags[lane]) {
        return Err(Refusal::Forged);
    }
    let hash = hash_of(message);
    if hash[..8] != stamp.digest {
        take_hollow(order, membership, now, stamp.sequence);
        return Err(Refusal::WrongDigest);
    }
    if let Some(first) = first_content(order, stamp.sequence) {
        if first != hash {
            order.report_evidence(stamp.sequence, first, hash);
            return Err(Refusal::Replayed);
        }
        // The packet may carry other tags for the other receivers of the shard.
        return keep(order, membership, &stamp, tags);
    }
    if u64::from(stamp.sequence) < order.next() {
        return Err(Refusal::Replayed);
    }
    order.make_room(stamp.sequence, stamp.sequence);
    let slot = order.slot(stamp.sequence, || TaggedSlot::of(membership));
    slot.prove(Proved {
        at: now,
        digest: stamp.digest,
        hash,
        message: message.to_vec(),
    });
    slot.keep(&stamp, tags)
}

/// Returns the message hash of a sequence number that is proved or delivered.
fn first_content(order: &Order<TaggedSlot>, sequence: u32) -> Option<Hash> {
    let number = u64::from(sequence);
    let proved = order.known(number).and_then(|slot| slot.proved.as_ref());
    proved
        .map(|proved| proved.hash)
        .or_else(|| order.delivered(number))
}

/// Keeps the tags of a packet that this receiver cannot verify, for certificates.
fn keep(
    order: &mut Order<TaggedSlot>,
    membership: &Membership,
    stamp: &Stamp,
    tags: [u32; LANES],
) -> Result<(), Refusal> {
    if u64::from(stamp.sequence) < order.next() {
        keep_late(order, stamp, tags);
        return Err(Refusal::Replayed);
    }
    if order.is_beyond(stamp.sequence) {
        return Err(Refusal::BeyondWindow);
    }
    let slot = order.slot(stamp.sequence, || TaggedSlot::of(membership));
    slot.keep(stamp, tags)
}

/// Adds further tags to a delivered message, for certificates that are requested later. The tags that came before the
/// delivery may be forged.
fn keep_late(order: &mut Order<TaggedSlot>, stamp: &Stamp, tags: [u32; LANES]) {
    let Some((hash, known)) = order.delivered_tags(u64::from(stamp.sequence)) else {
        return;
    };
    let shard = stamp.shard;
    let late = ShardTags { shard, tags };
    let n_variants = known.iter().filter(|it| it.shard == shard).count();
    if hash[..8] == stamp.digest && n_variants < CANDIDATES_MAX && !known.contains(&late) {
        known.push(late);
    }
}

/// Records the proof that the sequencer assigned a sequence number. The proof is a packet with a right tag whose
/// message does not match its digest.
fn take_hollow(
    order: &mut Order<TaggedSlot>,
    membership: &Membership,
    now: Duration,
    sequence: u32,
) {
    if u64::from(sequence) >= order.next() {
        order.make_room(sequence, sequence);
        let slot = order.slot(sequence, || TaggedSlot::of(membership));
        slot.hollow_at.get_or_insert(now);
    }
}

impl TaggedSlot {
    fn of(membership: &Membership) -> TaggedSlot {
        TaggedSlot {
            own_shard: place_of(membership.receiver).0,
            proved: None,
            hollow_at: None,
            is_void: false,
            candidates: vec![Vec::new(); usize::from(membership.n_shards())],
        }
    }

    fn prove(&mut self, proved: Proved) {
        for candidates in &mut self.candidates {
            candidates.retain(|candidate| candidate.digest == proved.digest);
        }
        self.proved = Some(proved);
    }

    /// Keeps the packet's digest and tags as a candidate. If the list is full, an older candidate or the new one is
    /// discarded.
    fn keep(&mut self, stamp: &Stamp, tags: [u32; LANES]) -> Result<(), Refusal> {
        let is_other = |proved: &Proved| proved.digest != stamp.digest;
        if self.proved.as_ref().is_some_and(is_other) {
            return Err(Refusal::WrongDigest);
        }
        let candidates = &mut self.candidates[usize::from(stamp.shard)];
        let is_known = |known: &Candidate| (known.digest, known.tags) == (stamp.digest, tags);
        if candidates.iter().any(is_known) {
            return Err(Refusal::Replayed);
        }
        let candidate = Candidate {
            digest: stamp.digest,
            tags,
            is_early: self.proved.is_none(),
        };
        if candidates.len() < CANDIDATES_MAX {
            candidates.push(candidate);
            return Ok(());
        }
        // Before the proof the newest candidates are kept, since the genuine packet comes shortly before the proof.
        // After the proof, new packets of a higher shard replace the early candidates of that shard. Other shards keep
        // their candidates, which include the genuine packet.
        let idx = match self.proved {
            None => Some(0),
            Some(_) if stamp.shard > self.own_shard => candidates.iter().position(|it| it.is_early),
            Some(_) => None,
        };
        if let Some(idx) = idx {
            candidates.remove(idx);
            candidates.push(candidate);
        }
        Err(Refusal::TooMany)
    }

    /// Returns whether the shard's candidates include the genuine packet, assuming that the network does not reorder.
    fn is_there(&self, shard: u8) -> bool {
        let mut candidates = self.candidates[usize::from(shard)].iter();
        candidates.any(|candidate| shard <= self.own_shard || !candidate.is_early)
    }

    fn shards(&self) -> impl Iterator<Item = u8> {
        0..self.candidates.len() as u8
    }
}

impl Slot for TaggedSlot {
    fn proved_at(&self) -> Option<Duration> {
        let proved = self.proved.as_ref().map(|proved| proved.at);
        proved.or(self.hollow_at)
    }

    fn settled_at(&self) -> Option<Duration> {
        let Some(proved) = &self.proved else {
            return self.hollow_at.filter(|_| self.is_void);
        };
        if self.candidates.iter().any(Vec::is_empty) {
            return None;
        }
        let is_whole = self.shards().all(|shard| self.is_there(shard));
        Some(proved.at + if is_whole { Duration::ZERO } else { SETTLE })
    }

    fn follow(&mut self) {
        self.is_void |= self.hollow_at.is_some();
    }

    fn settle(self) -> Settled {
        let is_whole = self.candidates.iter().all(|of_shard| !of_shard.is_empty());
        match self.proved {
            Some(proved) if is_whole => {
                let of_shards = (0..).zip(&self.candidates);
                let tags = of_shards.flat_map(|(shard, of_shard)| {
                    let tags = of_shard.iter().map(|candidate| candidate.tags);
                    tags.map(move |tags| ShardTags { shard, tags })
                });
                Settled::Message(Delivery {
                    hash: proved.hash,
                    proof: Proof::Tags(tags.collect()),
                    payload: proved.message,
                })
            }
            _ => Settled::Dropped,
        }
    }
}
