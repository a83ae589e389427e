//! AOM-PK: packets wait for a signature, and the chain is checked backwards from it.
//!
//! A signature proves its packet's state, the packet's link proves the predecessor's state, and so on. If the
//! predecessor with that state is missing, the walk stops: earlier packets wait for it, or for an earlier
//! signature. The walk also stops at a packet with a first packet's link: the coprocessor did not see the
//! packets before it (they were lost on the way there, or the coprocessor was restarted).

use std::sync::Arc;
use std::time::Duration;

use k256::ecdsa::VerifyingKey;

use crate::certificate::Proof;
use crate::chain::{self, FIRST_LINK, Hash, hash_of, state_of};
use crate::limits::CANDIDATES_MAX;
use crate::order::{Delivery, Order, Slot};
use crate::refused::{Refusal, Refused};
use crate::wire::{LINK_BYTES, SIGNATURE_BYTES, Stamp};

#[derive(Debug, Default)]
pub(crate) struct SignedSlot {
    /// The time since which the number's state is proved, and the state.
    proved: Option<(Duration, Hash)>,
    /// The packet with that state.
    accepted: Option<Accepted>,
    /// Packets without a proof yet.
    candidates: Vec<Candidate>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    link: Hash,
    state: Hash,
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
    let sequence = stamp.sequence;
    let hash = hash_of(message);
    if stamp.shard != 0 {
        return Err(Refusal::WrongShard);
    }
    if hash[..8] != stamp.digest {
        return Err(Refusal::WrongDigest);
    }
    if sequence == 1 && link != FIRST_LINK {
        return Err(Refusal::BrokenLink);
    }
    let packet = Candidate {
        link,
        state: state_of(stamp.chain(), &link, &hash, sequence),
        hash,
        message: message.to_vec(),
    };
    let first = first_state(order, sequence);
    if first == Some(packet.state) {
        return Err(Refusal::Replayed);
    }
    let Some(signature) = signature else {
        return match first {
            Some(_) => Err(Refusal::Replayed),
            None => take_unsigned(order, now, refused, sequence, packet),
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
    candidates.retain(|candidate| *candidate != packet);
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
    now: Duration,
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
    if slot.candidates.contains(&packet) {
        return Err(Refusal::Replayed);
    }
    if slot.candidates.len() == CANDIDATES_MAX {
        return Err(Refusal::TooMany);
    }
    slot.candidates.push(packet);
    if let Some(state) = proved
        && let Some(run) = order
            .known(u64::from(sequence) + 1)
            .and_then(|successor| successor.accepted.as_ref())
            .map(Accepted::run_so_far)
    {
        refused.broken_link += walk(order, now, sequence, state, run);
    }
    Ok(())
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

impl Slot for SignedSlot {
    fn proved_at(&self) -> Option<Duration> {
        self.proved.map(|(at, _)| at)
    }

    fn is_whole(&self) -> bool {
        self.accepted.is_some()
    }

    fn into_delivery(self) -> Option<Delivery> {
        let Accepted {
            packet,
            run,
            n_later,
        } = self.accepted?;
        let later = run.hashes[..n_later].iter().rev().copied().collect();
        Some(Delivery {
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
