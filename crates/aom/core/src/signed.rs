//! AOM-PK: packets wait for a signature, and the receiver follows each signature backwards along the chain.
//!
//! A signature proves its packet's state, a hash ([`crate::chain`]). The packet's link proves the predecessor's state,
//! and so on. If the predecessor with that state is missing, the receiver goes no further back: earlier packets wait
//! for the missing packet or for an earlier signature. The receiver also stops at a packet with `FIRST_LINK`: the
//! coprocessor never saw the packets before this one, because they were lost on the way or because the coprocessor was
//! restarted.
//!
//! If a packet has a wrong digest, the coprocessor puts its sequence number into the chain without a message
//! ([`NO_MESSAGE`]). Once a signature proves the state of such a packet, the receiver drops the sequence number at
//! once. An attacker who replaces the message of a genuine packet has no such proof.

use std::sync::Arc;
use std::time::Duration;

use k256::ecdsa::VerifyingKey;

use crate::certificate::Proof;
use crate::chain::{self, FIRST_LINK, Hash, NO_MESSAGE, hash_of, state_of};
use crate::limits::{CANDIDATES_MAX, UNPROVED_BYTES_MAX};
use crate::order::{Delivery, Order, Settled, Slot};
use crate::refused::{Refusal, Refused};
use crate::wire::{LINK_BYTES, SIGNATURE_BYTES, Stamp};

#[derive(Debug, Default)]
pub(crate) struct SignedSlot {
    /// The time at which the packet's state was proved, and that state.
    proved: Option<(Duration, Hash)>,
    /// The packet with the proved state.
    accepted: Option<Accepted>,
    /// Packets that are not proved, the oldest first.
    candidates: Vec<Candidate>,
}

#[derive(Debug, Clone)]
struct Candidate {
    at: Duration,
    link: Hash,
    state: Hash,
    /// [`NO_MESSAGE`] if the digest was wrong; then `message` is empty.
    hash: Hash,
    message: Vec<u8>,
}

#[derive(Debug)]
struct Accepted {
    packet: Candidate,
    run: Run,
    /// The number of hashes at the start of `run` that belong to later packets.
    n_later: usize,
}

/// A received packet of the chain, before any check.
pub(crate) struct Chained<'a> {
    pub(crate) stamp: Stamp,
    pub(crate) signature: Option<[u8; SIGNATURE_BYTES]>,
    pub(crate) link: [u8; LINK_BYTES],
    pub(crate) message: &'a [u8],
}

/// A signature and the hashes of the messages that it proves.
#[derive(Debug, Clone)]
struct Run {
    signature: [u8; SIGNATURE_BYTES],
    /// The hash of the signed packet's message, then that of its predecessor's message, and so on.
    hashes: Arc<Vec<Hash>>,
}

/// Handles a packet of this group and epoch.
pub(crate) fn take(
    order: &mut Order<SignedSlot>,
    key: &VerifyingKey,
    now: Duration,
    refused: &mut Refused,
    packet: Chained<'_>,
) -> Result<(), Refusal> {
    let Chained {
        stamp,
        signature,
        link,
        message,
    } = packet;
    if stamp.shard != 0 {
        return Err(Refusal::WrongShard);
    }
    let hash = hash_of(message);
    let is_right = hash[..8] == stamp.digest;
    let (hash, message) = if is_right {
        (hash, message)
    } else {
        (NO_MESSAGE, &[][..])
    };
    let packet = Candidate {
        at: now,
        link,
        state: state_of(stamp.chain(), &link, &hash, stamp.sequence),
        hash,
        message: message.to_vec(),
    };
    let taken = take_linked(order, key, refused, stamp.sequence, signature, packet);
    if is_right {
        taken
    } else {
        // The packet may belong to the chain, but its sequence number has no message: it counts as refused.
        Err(Refusal::WrongDigest)
    }
}

fn take_linked(
    order: &mut Order<SignedSlot>,
    key: &VerifyingKey,
    refused: &mut Refused,
    sequence: u32,
    signature: Option<[u8; SIGNATURE_BYTES]>,
    packet: Candidate,
) -> Result<(), Refusal> {
    let now = packet.at;
    if sequence == 1 && packet.link != FIRST_LINK {
        return Err(Refusal::BrokenLink);
    }
    let first = first_state(order, sequence);
    if first == Some(packet.state) {
        return Err(Refusal::Replayed);
    }
    let Some(signature) = signature else {
        return match first {
            Some(_) => Err(Refusal::Replayed),
            None => take_unsigned(order, refused, sequence, packet),
        };
    };
    if !chain::verify(key, &packet.state, &signature) {
        return Err(Refusal::Forged);
    }
    if let Some(first) = first {
        order.report_evidence(sequence, first, packet.state);
    }
    if first.is_some() || u64::from(sequence) < order.next() {
        return Err(Refusal::Replayed);
    }
    order.make_room(first_of_chain(order, sequence, &packet), sequence);
    let state = packet.state;
    let candidates = &mut order.slot(sequence, SignedSlot::default).candidates;
    candidates.retain(|candidate| candidate.state != packet.state);
    candidates.push(packet);
    refused.broken_link += walk(order, now, sequence, state, signature, Vec::new());
    Ok(())
}

/// Returns the first sequence number of the pending chain that ends with this packet. A member that joins in the middle
/// of an epoch starts at this number.
fn first_of_chain(order: &Order<SignedSlot>, sequence: u32, packet: &Candidate) -> u32 {
    let (mut first, mut link) = (sequence, &packet.link);
    while *link != FIRST_LINK
        && let Some(before) = order.known(u64::from(first) - 1)
        && let Some(packet) = before.candidates.iter().find(|it| it.state == *link)
    {
        (first, link) = (first - 1, &packet.link);
    }
    first
}

/// Returns the state of the packet that was accepted or delivered under this sequence number.
fn first_state(order: &Order<SignedSlot>, sequence: u32) -> Option<Hash> {
    let number = u64::from(sequence);
    let accepted = order.known(number).and_then(|slot| slot.accepted.as_ref());
    accepted
        .map(|accepted| accepted.packet.state)
        .or_else(|| order.delivered(number))
}

/// Accepts a packet if a later packet's link proves it; otherwise keeps it as a candidate.
fn take_unsigned(
    order: &mut Order<SignedSlot>,
    refused: &mut Refused,
    sequence: u32,
    packet: Candidate,
) -> Result<(), Refusal> {
    if u64::from(sequence) < order.next() {
        return Err(Refusal::Replayed);
    }
    if order.is_beyond(sequence) {
        return Err(Refusal::BeyondWindow);
    }
    let slot = order.slot(sequence, SignedSlot::default);
    let proved = slot.proved.map(|(_, state)| state);
    if proved.is_some_and(|state| state != packet.state) {
        return Err(Refusal::BrokenLink);
    }
    if slot.candidates.iter().any(|it| it.state == packet.state) {
        return Err(Refusal::Replayed);
    }
    // The newest candidates are kept, since the genuine packet comes shortly before its proof.
    let is_full = slot.candidates.len() == CANDIDATES_MAX;
    if is_full {
        slot.candidates.remove(0);
    }
    let now = packet.at;
    slot.candidates.push(packet);
    refused.too_many += forget_oldest(order);
    if let Some(state) = proved
        && let Some((signature, hashes)) = order
            .known(u64::from(sequence) + 1)
            .and_then(|successor| successor.accepted.as_ref())
            .map(Accepted::run_so_far)
    {
        refused.broken_link += walk(order, now, sequence, state, signature, hashes);
    }
    if is_full {
        Err(Refusal::TooMany)
    } else {
        Ok(())
    }
}

/// Bounds the bytes of messages without a proof. Returns the number of discarded packets.
fn forget_oldest(order: &mut Order<SignedSlot>) -> u64 {
    let mut n_bytes: usize = order.slots_mut().map(|slot| slot.unproved_bytes()).sum();
    let mut n_forgotten = 0;
    while n_bytes > UNPROVED_BYTES_MAX {
        let slots = order.slots_mut().filter(|slot| slot.unproved_bytes() > 0);
        let Some(oldest) = slots.min_by_key(|slot| slot.candidates.first().map(|it| it.at)) else {
            break;
        };
        n_bytes -= oldest.candidates.remove(0).message.len();
        n_forgotten += 1;
    }
    n_forgotten
}

/// Accepts the packet with the proved state, then the predecessor whose state is the packet's link, and so on. Returns
/// the number of discarded candidates that had another state.
fn walk(
    order: &mut Order<SignedSlot>,
    now: Duration,
    mut sequence: u32,
    mut state: Hash,
    signature: [u8; SIGNATURE_BYTES],
    mut hashes: Vec<Hash>,
) -> u64 {
    let mut n_broken = 0;
    let mut accepted = Vec::new();
    loop {
        let slot = order.slot(sequence, SignedSlot::default);
        let (_, proved) = *slot.proved.get_or_insert((now, state));
        if proved != state {
            order.report_evidence(sequence, proved, state);
            break;
        }
        let mut packets = std::mem::take(&mut slot.candidates);
        let idx = packets.iter().position(|packet| packet.state == state);
        n_broken += (packets.len() - usize::from(idx.is_some())) as u64;
        let Some(idx) = idx else {
            break;
        };
        let packet = packets.swap_remove(idx);
        let n_later = hashes.len();
        hashes.push(packet.hash);
        state = packet.link;
        accepted.push((sequence, packet, n_later));
        if state == FIRST_LINK {
            break;
        }
        if u64::from(sequence) == order.next() {
            look_at_predecessor(order, sequence, state);
            break;
        }
        sequence -= 1;
    }
    let hashes = Arc::new(hashes);
    for (sequence, packet, n_later) in accepted {
        let hashes = Arc::clone(&hashes);
        let run = Run { signature, hashes };
        order.slot(sequence, SignedSlot::default).accepted = Some(Accepted {
            packet,
            run,
            n_later,
        });
    }
    n_broken
}

/// Compares the link of the window's first packet with the state of its predecessor, which is delivered already. A
/// difference is evidence against the sequencer.
fn look_at_predecessor(order: &mut Order<SignedSlot>, sequence: u32, link: Hash) {
    let before = sequence - 1;
    if let Some(delivered) = order.delivered(u64::from(before))
        && delivered != link
    {
        order.report_evidence(before, delivered, link);
    }
}

impl Accepted {
    /// Returns the signature, and the hashes from the signed packet's message back to this packet's message.
    fn run_so_far(&self) -> ([u8; SIGNATURE_BYTES], Vec<Hash>) {
        let hashes = self.run.hashes[..=self.n_later].to_vec();
        (self.run.signature, hashes)
    }
}

impl SignedSlot {
    fn unproved_bytes(&self) -> usize {
        self.candidates.iter().map(|it| it.message.len()).sum()
    }
}

impl Slot for SignedSlot {
    fn proved_at(&self) -> Option<Duration> {
        self.proved.map(|(at, _)| at)
    }

    fn settled_at(&self) -> Option<Duration> {
        self.accepted.as_ref().map(|_| Duration::ZERO)
    }

    /// Does nothing. In AOM-PK only a signature, or the link of the next packet, proves something about this slot.
    fn follow(&mut self) {}

    fn settle(self) -> Settled {
        let Some(Accepted {
            packet,
            run,
            n_later,
        }) = self.accepted
        else {
            return Settled::Dropped;
        };
        if packet.hash == NO_MESSAGE {
            return Settled::Void(packet.state);
        }
        let later = run.hashes[..n_later].iter().rev().copied().collect();
        Settled::Message(Delivery {
            payload: packet.message,
            hash: packet.state,
            proof: Proof::Signed {
                link: packet.link,
                later,
                signature: run.signature,
            },
        })
    }
}
