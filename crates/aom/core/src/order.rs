//! The window of pending sequence numbers, for AOM-HM and AOM-PK: delivers complete messages in order, and drops
//! sequence numbers whose messages are not complete in time.
//!
//! A sequence number is proved when a right tag or signature shows that the sequencer assigned it. It is settled when
//! its message is delivered or when it is dropped. The head is the lowest sequence number that is not settled.

use std::collections::VecDeque;
use std::time::Duration;

use crate::certificate::{Certificate, Proof, ShardTags};
use crate::chain::Hash;
use crate::event::{DropNotification, Event, Evidence, Message};
use crate::limits::{FIRST_PROVED, GAP_TIMEOUT, WINDOW};

/// What the receiver of AOM-HM or of AOM-PK keeps of one pending sequence number.
pub(crate) trait Slot {
    /// The time since which there is a proof that the sequencer assigned the sequence number; `None` without a proof.
    fn proved_at(&self) -> Option<Duration>;

    /// The time from which the sequence number can be settled, with a message or without one; `None` while more
    /// packets are needed.
    fn settled_at(&self) -> Option<Duration>;

    /// Notifies the slot that a later sequence number was proved.
    fn follow(&mut self);

    fn settle(self) -> Settled;
}

pub(crate) enum Settled {
    Message(Delivery),
    /// The sequencer proved that there is no message. The hash is kept to detect a second content of the same sequence
    /// number.
    Void(Hash),
    Dropped,
}

pub(crate) struct Delivery {
    pub(crate) payload: Vec<u8>,
    /// Kept to detect a second content of the same sequence number.
    pub(crate) hash: Hash,
    pub(crate) proof: Proof,
}

/// What is kept of a settled sequence number, to detect a second content.
#[derive(Debug)]
struct Delivered {
    number: u64,
    hash: Hash,
    /// AOM-HM: all tags received so far.
    tags: Vec<ShardTags>,
}

/// The window of pending sequence numbers, and the events of the sequence numbers that are settled.
#[derive(Debug)]
pub(crate) struct Order<S> {
    group: u16,
    epoch: u64,
    /// The lowest sequence number that is not settled.
    next: u64,
    /// True until the first proof, if the member joined in the middle of an epoch (`FIRST_PROVED`). The window then
    /// starts at the proved sequence number.
    is_open: bool,
    /// One slot for each sequence number from `next` on.
    slots: VecDeque<S>,
    /// The last `WINDOW` settled sequence numbers with a known hash, the newest at the end.
    delivered: VecDeque<Delivered>,
    events: VecDeque<Event>,
}

impl<S: Slot> Order<S> {
    /// `events` are the events of earlier epochs that the caller has not polled yet.
    pub(crate) fn new(group: u16, epoch: u64, first: u32, events: VecDeque<Event>) -> Order<S> {
        Order {
            group,
            epoch,
            next: u64::from(first.max(1)),
            is_open: first == FIRST_PROVED,
            slots: VecDeque::new(),
            delivered: VecDeque::new(),
            events,
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns whether a sequence number is past the window, so that only a proof may move the window there.
    pub(crate) fn is_beyond(&self, sequence: u32) -> bool {
        u64::from(sequence) >= self.next + u64::from(WINDOW)
    }

    /// Returns the hash of a settled sequence number, if the number is among the last `WINDOW` settled numbers with a
    /// known hash.
    pub(crate) fn delivered(&self, number: u64) -> Option<Hash> {
        let mut delivered = self.delivered.iter();
        delivered.find(|it| it.number == number).map(|it| it.hash)
    }

    pub(crate) fn delivered_tags(&mut self, number: u64) -> Option<(Hash, &mut Vec<ShardTags>)> {
        let mut delivered = self.delivered.iter_mut();
        delivered
            .find(|it| it.number == number)
            .map(|it| (it.hash, &mut it.tags))
    }

    /// Returns the certificate of a delivered message, including tags that came after the delivery.
    pub(crate) fn certificate(&self, sequence: u32) -> Option<Certificate> {
        let mut delivered = self.delivered.iter();
        let found = delivered.find(|it| it.number == u64::from(sequence))?;
        let proof = Proof::Tags(found.tags.clone());
        (!found.tags.is_empty()).then_some(Certificate {
            group: self.group,
            epoch: self.epoch,
            sequence,
            proof,
        })
    }

    /// Returns the slot of a sequence number, if the number is in the window and its slot exists.
    pub(crate) fn known(&self, number: u64) -> Option<&S> {
        let idx = usize::try_from(number.checked_sub(self.next)?).ok()?;
        self.slots.get(idx)
    }

    /// Returns the slot of a sequence number, and creates the slot if it does not exist. The sequence number must not
    /// be before the window.
    pub(crate) fn slot(&mut self, sequence: u32, empty: impl Fn() -> S) -> &mut S {
        let idx = (u64::from(sequence) - self.next) as usize;
        while self.slots.len() <= idx {
            self.slots.push_back(empty());
        }
        &mut self.slots[idx]
    }

    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.slots.iter_mut()
    }

    /// Moves the window until it contains the proved number `sequence`, and settles the sequence numbers that leave the
    /// window. `first` is the lowest sequence number that the same proof covers. If `is_open`, the window starts at
    /// `first`.
    pub(crate) fn make_room(&mut self, first: u32, sequence: u32) {
        if std::mem::take(&mut self.is_open) {
            let before = u64::from(first) - self.next;
            let n_slots =
                usize::try_from(before).map_or(self.slots.len(), |it| it.min(self.slots.len()));
            self.slots.drain(..n_slots);
            self.next = u64::from(first);
        }
        let first = (u64::from(sequence) + 1).saturating_sub(u64::from(WINDOW));
        while self.next < first && !self.slots.is_empty() {
            self.settle_head();
        }
        if self.next < first {
            self.drop_until(first);
        }
        let n_before = (u64::from(sequence) - self.next) as usize;
        self.slots.iter_mut().take(n_before).for_each(Slot::follow);
    }

    /// Queues the event that the sequencer authenticated two contents under one sequence number.
    pub(crate) fn report_evidence(&mut self, sequence: u32, first: Hash, second: Hash) {
        let epoch = self.epoch;
        self.events.push_back(Event::Evidence(Evidence {
            epoch,
            sequence,
            first,
            second,
        }));
    }

    /// Delivers complete messages. Gives up the head when any sequence number in the window has been proved for
    /// `GAP_TIMEOUT`.
    pub(crate) fn deliver(&mut self, now: Duration) {
        while self.is_settled(now) || self.is_late(now) {
            self.settle_head();
        }
    }

    /// Returns the time at which the head is delivered or given up, unless a datagram settles the head before.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let settled = self.slots.front().and_then(Slot::settled_at);
        settled.into_iter().chain(self.given_up_at()).min()
    }

    /// Ends the epoch: delivers complete messages, and drops the other sequence numbers up to `last` if it is known.
    pub(crate) fn finish(mut self, last: Option<u32>) -> VecDeque<Event> {
        while self.slots.iter().any(|slot| slot.proved_at().is_some()) {
            self.settle_head();
        }
        let after = last.map_or(self.next, |last| u64::from(last) + 1);
        // A receiver without a proof has no first sequence number yet, so it reports no drops.
        if self.next < after && !self.is_open {
            self.drop_until(after);
        }
        self.events
    }

    fn is_settled(&self, now: Duration) -> bool {
        let settled_at = self.slots.front().and_then(Slot::settled_at);
        settled_at.is_some_and(|at| at <= now)
    }

    fn is_late(&self, now: Duration) -> bool {
        self.given_up_at().is_some_and(|at| at <= now)
    }

    fn given_up_at(&self) -> Option<Duration> {
        let proved = self.slots.iter().filter_map(Slot::proved_at);
        proved.min().map(|at| at + GAP_TIMEOUT)
    }

    /// Delivers the head if it is complete, else drops it.
    fn settle_head(&mut self) {
        let settled = self.slots.pop_front().map(Slot::settle);
        let delivery = match settled {
            Some(Settled::Message(delivery)) => delivery,
            Some(Settled::Void(hash)) => {
                self.remember(hash, Vec::new());
                return self.drop_until(self.next + 1);
            }
            Some(Settled::Dropped) | None => return self.drop_until(self.next + 1),
        };
        let tags = match &delivery.proof {
            Proof::Tags(tags) => tags.clone(),
            _ => Vec::new(),
        };
        self.remember(delivery.hash, tags);
        let (group, epoch) = (self.group, self.epoch);
        // Sequence numbers end at `u32::MAX`, so the cast is exact.
        let sequence = self.next as u32;
        self.events.push_back(Event::Message(Message {
            epoch,
            sequence,
            payload: delivery.payload,
            certificate: Certificate {
                group,
                epoch,
                sequence,
                proof: delivery.proof,
            },
        }));
        self.next += 1;
    }

    /// Records the head's hash, to detect a second content of the same sequence number.
    fn remember(&mut self, hash: Hash, tags: Vec<ShardTags>) {
        let number = self.next;
        self.delivered.push_back(Delivered { number, hash, tags });
        if self.delivered.len() > WINDOW as usize {
            self.delivered.pop_front();
        }
    }

    /// Drops the sequence numbers from `next` to `first - 1`, of which there must be at least one.
    fn drop_until(&mut self, first: u64) {
        // Sequence numbers end at `u32::MAX`, so both casts are exact.
        let dropped = DropNotification {
            epoch: self.epoch,
            first: self.next as u32,
            last: (first - 1) as u32,
        };
        Event::Drop(dropped).queue(&mut self.events);
        self.next = first;
    }
}
