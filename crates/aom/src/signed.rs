//! AOM-PK: packets wait for a signature, and the chain is checked backwards from it.
//!
//! A signature proves its packet's state, the packet's link proves the predecessor's state, and so on. If the
//! predecessor with that state is missing, the walk stops: earlier packets wait for it, or for an earlier
//! signature. The walk also stops at a packet with a first packet's link: the coprocessor did not see the
//! packets before it (they were lost on the way there, or the coprocessor was restarted).
//!
//! The coprocessor links a packet whose digest is wrong too, as a number without a message. Once that is proved, the
//! number is dropped at once. Who exchanges the message of a true packet has no proof of it.

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
    /// The time since which the number's state is proved, and the state.
    proved: Option<(Duration, Hash)>,
    /// The packet with that state.
    accepted: Option<Accepted>,
    /// Packets without a proof yet, the oldest first.
    candidates: Vec<Candidate>,
}

#[derive(Debug, Clone)]
struct Candidate {
    at: Duration,
    link: Hash,
    state: Hash,
    /// [`NO_MESSAGE`] if the digest is wrong; then the message is empty.
    hash: Hash,
    message: Vec<u8>,
}

#[derive(Debug)]
struct Accepted {
    packet: Candidate,
    run: Run,
    /// The number of the run's hashes that belong to later packets.
    n_later: usize,
}

/// A signature and the hashes that it proves.
#[derive(Debug, Clone)]
struct Run {
    signature: [u8; SIGNATURE_BYTES],
    /// Hashes of the messages, the signed one's first, each followed by its predecessor's.
    hashes: Arc<Vec<Hash>>,
}

/// Takes a packet of this group and epoch.
pub(crate) fn take(
    order: &mut Order<SignedSlot>,
    key: &VerifyingKey,
    now: Duration,
    refused: &mut Refused,
    (stamp, signature, link, message): (
        Stamp,
        Option<[u8; SIGNATURE_BYTES]>,
        [u8; LINK_BYTES],
        &[u8],
    ),
) -> Result<(), Refusal> {
    if stamp.shard != 0 {
        return Err(Refusal::WrongShard);
    }
    let hash = hash_of(message);
    let is_right = hash[..8] == stamp.digest;
    let (hash, message) = match is_right {
        true => (hash, message),
        false => (NO_MESSAGE, &[][..]),
    };
    let packet = Candidate {
        at: now,
        link,
        state: state_of(stamp.chain(), &link, &hash, stamp.sequence),
        hash,
        message: message.to_vec(),
    };
    let taken = take_linked(order, key, refused, (stamp.sequence, signature, packet));
    match is_right {
        true => taken,
        // Whatever becomes of it, it brings no message.
        false => Err(Refusal::WrongDigest),
    }
}

fn take_linked(
    order: &mut Order<SignedSlot>,
    key: &VerifyingKey,
    refused: &mut Refused,
    (sequence, signature, packet): (u32, Option<[u8; SIGNATURE_BYTES]>, Candidate),
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
        order.tell_evidence(sequence, first, packet.state);
    }
    if first.is_some() || u64::from(sequence) < order.next() {
        return Err(Refusal::Replayed);
    }
    order.make_room(first_of_chain(order, sequence, &packet), sequence);
    let state = packet.state;
    let candidates = &mut order.slot(sequence, SignedSlot::default).candidates;
    candidates.retain(|candidate| candidate.state != packet.state);
    candidates.push(packet);
    let run = (signature, Vec::new());
    refused.broken_link += walk(order, now, sequence, state, run);
    Ok(())
}

/// The number of the first packet of the chain that ends with this one: all of them wait.
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

/// The state of the accepted packet with this number.
fn first_state(order: &Order<SignedSlot>, sequence: u32) -> Option<Hash> {
    let number = u64::from(sequence);
    let accepted = order.known(number).and_then(|slot| slot.accepted.as_ref());
    accepted
        .map(|accepted| accepted.packet.state)
        .or_else(|| order.delivered(number))
}

/// Accepts a packet that a later packet's link proves; otherwise it waits for a proof.
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
    // The newest are kept, since the true packet comes close to its proof.
    let is_full = slot.candidates.len() == CANDIDATES_MAX;
    if is_full {
        slot.candidates.remove(0);
    }
    let now = packet.at;
    slot.candidates.push(packet);
    refused.too_many += forget_oldest(order);
    if let Some(state) = proved
        && let Some(run) = order
            .known(u64::from(sequence) + 1)
            .and_then(|successor| successor.accepted.as_ref())
            .map(Accepted::run_so_far)
    {
        refused.broken_link += walk(order, now, sequence, state, run);
    }
    match is_full {
        true => Err(Refusal::TooMany),
        false => Ok(()),
    }
}

/// Bounds the bytes of messages without a proof. Returns the number of packets that are forgotten.
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

/// Accepts the packet with the proved state of a number, then its predecessor by its link, and so on. Returns
/// the number of packets that had another state.
fn walk(
    order: &mut Order<SignedSlot>,
    now: Duration,
    last: u32,
    state: Hash,
    (signature, mut hashes): ([u8; SIGNATURE_BYTES], Vec<Hash>),
) -> u64 {
    let mut n_broken = 0;
    let mut accepted = Vec::new();
    let (mut sequence, mut state) = (last, state);
    loop {
        let slot = order.slot(sequence, SignedSlot::default);
        let (_, proved) = *slot.proved.get_or_insert((now, state));
        if proved != state {
            order.tell_evidence(sequence, proved, state);
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

/// The first number of the window follows the last that was delivered.
fn look_at_predecessor(order: &mut Order<SignedSlot>, sequence: u32, link: Hash) {
    let before = sequence - 1;
    if let Some(delivered) = order.delivered(u64::from(before))
        && delivered != link
    {
        order.tell_evidence(before, delivered, link);
    }
}

impl Accepted {
    /// The signature and the hashes from the signed packet's down to this one's.
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

    /// A later number says nothing that its link does not.
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
