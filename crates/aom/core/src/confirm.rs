//! Byzantine network mode of NeoBFT, for an untrusted network: members send each other confirms. A confirm is a
//! member's signed statement that it received a certain content (a message) under a certain sequence number. A member
//! delivers a message when a quorum has confirmed its content.
//!
//! A correct member signs only one content for each sequence number. Any two quorums have more members in common than
//! may lie, so two contents of one sequence number cannot both have a quorum. Correct members therefore never deliver
//! different messages under one sequence number.

use std::collections::VecDeque;
use std::time::Duration;

use k256::ecdsa::signature::hazmat::{PrehashSigner, PrehashVerifier};
use k256::ecdsa::{Signature, SigningKey};
use sha2::{Digest, Sha256};

use crate::certificate::{Certificate, Proof};
use crate::chain::{Hash, hash_of};
use crate::event::{DropNotification, Event, Message};
use crate::limits::{CONFIRM_TIMEOUT, FIRST_PROVED, WINDOW};
use crate::membership::{Membership, MembershipError};
use crate::receiver::Receiver;
use crate::refused::Refused;
use crate::wire::{ConfirmPacket, SIGNATURE_BYTES};

/// A member's signed statement that a sequence number has this content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confirm {
    /// The member that signs.
    pub member: u8,
    /// The sequence number.
    pub sequence: u32,
    /// SHA-256 of the message.
    pub hash: Hash,
    /// ECDSA: r and s, big endian.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// Counts refused confirms by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RefusedConfirms {
    /// The confirm has another group or epoch, or its member is not in the group.
    pub strangers: u64,
    /// The signature is wrong.
    pub forged: u64,
    /// The sequence number is delivered or dropped already, or the confirm is a repetition.
    pub late: u64,
    /// The member confirmed another content before.
    pub contradictory: u64,
    /// The sequence number is beyond the window of pending sequence numbers.
    pub beyond_window: u64,
}

/// A receiver that delivers a message only when a quorum of its group confirms it.
#[derive(Debug)]
pub struct Confirming {
    receiver: Receiver,
    key: SigningKey,
    /// The lowest sequence number that is neither delivered nor dropped.
    next: u64,
    /// True until the receiver's first event, if the member joined in the middle of an epoch (`FIRST_PROVED`). The
    /// window of pending sequence numbers then starts at the sequence number of this event.
    is_open: bool,
    /// One round for each sequence number from `next` on.
    rounds: VecDeque<Round>,
    events: VecDeque<Event>,
    outgoing: VecDeque<Vec<u8>>,
    refused: RefusedConfirms,
}

/// What this member knows of one sequence number.
#[derive(Debug, Default)]
struct Round {
    own: Option<Own>,
    confirms: Vec<Confirm>,
}

/// This member's own result for the sequence number.
#[derive(Debug)]
enum Own {
    Message(Duration, Hash, Box<Message>),
    Drop,
}

impl Confirm {
    fn sign(key: &SigningKey, membership: &Membership, sequence: u32, hash: Hash) -> Confirm {
        let member = membership.receiver;
        let said = said_by(membership, member, sequence, &hash);
        let signature: Signature = key
            .sign_prehash(&said)
            .expect("a hash of 32 bytes can be signed");
        Confirm {
            member,
            sequence,
            hash,
            signature: signature.to_bytes().into(),
        }
    }

    /// Returns whether the confirm's member made the signature.
    #[must_use]
    pub fn verify(&self, membership: &Membership) -> bool {
        let said = said_by(membership, self.member, self.sequence, &self.hash);
        let key = membership.confirm_keys.get(usize::from(self.member));
        let signature = Signature::from_slice(&self.signature);
        key.zip(signature.ok())
            .is_some_and(|(key, signature)| key.verify_prehash(&said, &signature).is_ok())
    }
}

/// Computes the hash that a member signs in a confirm. The leading string separates confirms from everything else that
/// the key signs.
fn said_by(membership: &Membership, member: u8, sequence: u32, hash: &Hash) -> Hash {
    Sha256::new()
        .chain_update(b"authenticated ordered multicast, confirm")
        .chain_update(membership.group.to_be_bytes())
        .chain_update(membership.epoch.to_be_bytes())
        .chain_update([member])
        .chain_update(sequence.to_be_bytes())
        .chain_update(hash)
        .finalize()
        .into()
}

impl Confirming {
    /// Creates a receiver that starts at sequence number `first`, as `Receiver::new` does. `key` is the private key
    /// that belongs to this member's public confirm key in the membership.
    ///
    /// # Errors
    ///
    /// If the membership is invalid, or its confirm key does not match `key`.
    pub fn new(
        membership: Membership,
        first: u32,
        key: SigningKey,
    ) -> Result<Confirming, MembershipError> {
        check_key(&membership, &key)?;
        Ok(Confirming {
            receiver: Receiver::new(membership, first)?,
            key,
            next: u64::from(first.max(1)),
            is_open: first == FIRST_PROVED,
            rounds: VecDeque::new(),
            events: VecDeque::new(),
            outgoing: VecDeque::new(),
            refused: RefusedConfirms::default(),
        })
    }

    /// Handles a datagram from the sequencer or from another member.
    pub fn handle_datagram(&mut self, now: Duration, datagram: &[u8]) {
        match ConfirmPacket::read(datagram) {
            Some(packet) => self.take_confirm(&packet),
            None => self.receiver.handle_datagram(now, datagram),
        }
        self.go_on(now);
    }

    /// Must be called at the time that [`poll_timeout`](Self::poll_timeout) returned.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.receiver.handle_timeout(now);
        self.go_on(now);
    }

    /// Returns the time of the next delivery or drop, unless a datagram causes a delivery or drop earlier.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let given_up = self.rounds.front().and_then(Round::given_up_at);
        self.receiver
            .poll_timeout()
            .into_iter()
            .chain(given_up)
            .min()
    }

    /// Returns the next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Returns the next datagram that the caller must send to every other member.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.outgoing.pop_front()
    }

    /// Returns the number of refused packets of the sequencer, by reason.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.receiver.refused()
    }

    /// Returns the number of refused confirms of other members, by reason.
    #[must_use]
    pub fn refused_confirms(&self) -> RefusedConfirms {
        self.refused
    }

    /// Starts the next epoch. Sequence numbers of the old epoch without a quorum are dropped.
    ///
    /// # Errors
    ///
    /// If the membership is invalid, or its confirm key does not match this member's key; then nothing changes.
    pub fn advance(
        &mut self,
        now: Duration,
        membership: Membership,
        last: Option<u32>,
    ) -> Result<(), MembershipError> {
        check_key(&membership, &self.key)?;
        membership.check()?;
        let epoch = self.receiver.membership().epoch;
        // All events that the receiver has queued up to here belong to the old epoch.
        let old = self.receiver.membership().clone();
        self.receiver.advance(membership, last)?;
        while let Some(event) = self.receiver.poll_event() {
            self.take_event(now, &old, event);
        }
        while !self.rounds.is_empty() {
            self.settle_head(&old, epoch);
        }
        self.next = 1;
        self.is_open = false;
        Ok(())
    }

    fn take_confirm(&mut self, packet: &ConfirmPacket) {
        let membership = self.receiver.membership();
        let confirm = packet.confirm;
        let number = u64::from(confirm.sequence);
        let refused = &mut self.refused;
        let is_ours =
            (packet.group, u64::from(packet.epoch)) == (membership.group, membership.epoch);
        if !is_ours || usize::from(confirm.member) >= membership.confirm_keys.len() {
            refused.strangers += 1;
        } else if number < self.next {
            refused.late += 1;
        } else if number >= self.next + u64::from(WINDOW) {
            refused.beyond_window += 1;
        } else if !confirm.verify(membership) {
            refused.forged += 1;
        } else {
            let round = round(&mut self.rounds, self.next, number);
            let mut before = round.confirms.iter();
            match before.find(|before| before.member == confirm.member) {
                Some(before) if before.hash != confirm.hash => refused.contradictory += 1,
                Some(_) => refused.late += 1,
                None => round.confirms.push(confirm),
            }
        }
    }

    fn go_on(&mut self, now: Duration) {
        let membership = self.receiver.membership().clone();
        while let Some(event) = self.receiver.poll_event() {
            self.take_event(now, &membership, event);
        }
        let quorum = membership.quorum();
        while self
            .rounds
            .front()
            .is_some_and(|head| head.is_settled(now, quorum))
        {
            self.settle_head(&membership, membership.epoch);
        }
    }

    fn take_event(&mut self, now: Duration, membership: &Membership, event: Event) {
        match event {
            Event::Evidence(_) => self.events.push_back(event),
            Event::Drop(drop) => self.take_drop(membership, drop),
            Event::Message(message) => self.take_message(now, membership, message),
        }
    }

    /// Signs a confirm of the received message and queues it for the other members.
    fn take_message(&mut self, now: Duration, membership: &Membership, message: Message) {
        let (sequence, hash) = (message.sequence, hash_of(&message.payload));
        self.make_room(membership, sequence, sequence);
        let confirm = Confirm::sign(&self.key, membership, sequence, hash);
        let round = round(&mut self.rounds, self.next, u64::from(sequence));
        round.own = Some(Own::Message(now, hash, Box::new(message)));
        round
            .confirms
            .retain(|other| other.member != confirm.member);
        round.confirms.push(confirm);
        self.outgoing.push_back(
            ConfirmPacket {
                group: membership.group,
                epoch: membership.epoch_on_the_wire(),
                confirm,
            }
            .write(),
        );
    }

    /// Records dropped sequence numbers. Creates rounds only for those inside the window of pending sequence numbers:
    /// `make_room` drops those before the window as one range, so a gap of billions of numbers needs no memory.
    fn take_drop(&mut self, membership: &Membership, drop: DropNotification) {
        self.make_room(membership, drop.first, drop.last);
        for number in self.next.max(u64::from(drop.first))..=u64::from(drop.last) {
            round(&mut self.rounds, self.next, number).own = Some(Own::Drop);
        }
    }

    /// Moves the window of pending sequence numbers until it contains `last`, and delivers or drops the sequence
    /// numbers that leave the window. This bounds the memory if no quorum is reached. `first..=last` follows the range
    /// of the receiver's previous event.
    fn make_room(&mut self, membership: &Membership, first: u32, last: u32) {
        if std::mem::take(&mut self.is_open) {
            self.rounds.clear();
            self.next = u64::from(first);
        }
        let begin = (u64::from(last) + 1).saturating_sub(u64::from(WINDOW));
        while self.next < begin && !self.rounds.is_empty() {
            self.settle_head(membership, membership.epoch);
        }
        if self.next < begin {
            self.drop_until(begin, membership.epoch);
        }
    }

    /// Delivers the message of the lowest pending sequence number if it has a quorum, else drops the sequence number.
    fn settle_head(&mut self, membership: &Membership, epoch: u64) {
        let round = self.rounds.pop_front().unwrap_or_default();
        match round.confirmed(membership.quorum()) {
            Some(message) => {
                self.events.push_back(Event::Message(message));
                self.next += 1;
            }
            None => self.drop_until(self.next + 1, epoch),
        }
    }

    /// Drops the sequence numbers from `next` to `first - 1`, of which there must be at least one.
    fn drop_until(&mut self, first: u64, epoch: u64) {
        // Sequence numbers end at `u32::MAX`, so both casts are exact.
        let dropped = DropNotification {
            epoch,
            first: self.next as u32,
            last: (first - 1) as u32,
        };
        Event::Drop(dropped).queue(&mut self.events);
        self.next = first;
    }
}

/// Returns the round of a sequence number, which must not be before the window.
fn round(rounds: &mut VecDeque<Round>, next: u64, number: u64) -> &mut Round {
    let idx = (number - next) as usize;
    while rounds.len() <= idx {
        rounds.push_back(Round::default());
    }
    &mut rounds[idx]
}

fn check_key(membership: &Membership, key: &SigningKey) -> Result<(), MembershipError> {
    let own = membership
        .confirm_keys
        .get(usize::from(membership.receiver));
    match own {
        Some(own) if own == key.verifying_key() => Ok(()),
        Some(_) => Err(MembershipError::OtherConfirmKey(membership.receiver)),
        None => Err(MembershipError::ConfirmKeys {
            n_receivers: membership.n_receivers,
            found: membership.confirm_keys.len(),
        }),
    }
}

impl Round {
    fn given_up_at(&self) -> Option<Duration> {
        match &self.own {
            Some(Own::Message(at, _, _)) => Some(*at + CONFIRM_TIMEOUT),
            _ => None,
        }
    }

    fn is_settled(&self, now: Duration, quorum: usize) -> bool {
        match &self.own {
            None => false,
            Some(Own::Drop) => true,
            Some(Own::Message(_, hash, _)) => {
                self.n_confirms(hash) >= quorum || self.given_up_at().is_some_and(|at| at <= now)
            }
        }
    }

    fn n_confirms(&self, hash: &Hash) -> usize {
        let confirms = self.confirms.iter();
        confirms.filter(|confirm| confirm.hash == *hash).count()
    }

    /// Returns the message if it has a quorum. Its proof is then the confirms instead of the sequencer's tags or
    /// signature.
    fn confirmed(self, quorum: usize) -> Option<Message> {
        let Some(Own::Message(_, hash, message)) = self.own else {
            return None;
        };
        let message = *message;
        let mut confirms = self.confirms;
        confirms.retain(|confirm| confirm.hash == hash);
        (confirms.len() >= quorum).then_some(Message {
            certificate: Certificate {
                proof: Proof::Confirmed(confirms),
                ..message.certificate
            },
            ..message
        })
    }
}
