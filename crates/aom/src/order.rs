//! Numbers in order: complete ones are delivered, and those that are not complete in time are dropped.

use std::collections::VecDeque;
use std::time::Duration;

use crate::certificate::{Certificate, Proof, ShardTags};
use crate::chain::Hash;
use crate::event::{DropNotification, Event, Evidence, Message};
use crate::limits::{FIRST_PROVED, PATIENCE, WINDOW};

/// The state of one number.
pub(crate) trait Slot {
    /// The time since which it is proved that the sequencer gave the number.
    fn proved_at(&self) -> Option<Duration>;

    /// The time from which the number is settled, whether it has a message or never will; `None` if it is not known yet.
    fn settled_at(&self) -> Option<Duration>;

    /// A later number was proved.
    fn follow(&mut self);

    /// What becomes of the number.
    fn settle(self) -> Settled;
}

/// What becomes of a number.
pub(crate) enum Settled {
    Message(Delivery),
    /// The sequencer itself says that the number has no message; with the hash that is compared if the number comes a
    /// second time.
    Void(Hash),
    Dropped,
}

/// A message with its proof.
pub(crate) struct Delivery {
    pub(crate) payload: Vec<u8>,
    /// The hash that is compared if the number comes a second time.
    pub(crate) hash: Hash,
    pub(crate) proof: Proof,
}

/// What is kept of a delivered message.
#[derive(Debug)]
struct Delivered {
    number: u64,
    hash: Hash,
    /// AOM-HM: the tags that have come.
    tags: Vec<ShardTags>,
}

/// The window of numbers that are not settled, and the events of those that are.
#[derive(Debug)]
pub(crate) struct Order<S> {
    group: u16,
    epoch: u64,
    /// The first number that is not settled.
    next: u64,
    /// Whether the first number that is proved is the first of all.
    is_open: bool,
    /// The slots of `next` and the numbers that follow it.
    slots: VecDeque<S>,
    /// The last delivered messages; the newest at the end.
    delivered: VecDeque<Delivered>,
    events: VecDeque<Event>,
}

impl<S: Slot> Order<S> {
    /// `events` are those of the previous epoch that were not yet polled.
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

    /// The first number that is not settled.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Whether a number is so far ahead that only a proof may move the window to it.
    pub(crate) fn is_beyond(&self, sequence: u32) -> bool {
        u64::from(sequence) >= self.next + u64::from(WINDOW)
    }

    /// The hash of a delivered number, if it was delivered recently enough.
    pub(crate) fn delivered(&self, number: u64) -> Option<Hash> {
        let mut delivered = self.delivered.iter();
        delivered.find(|it| it.number == number).map(|it| it.hash)
    }

    /// The hash of a delivered number, and the tags that have come.
    pub(crate) fn delivered_tags(&mut self, number: u64) -> Option<(Hash, &mut Vec<ShardTags>)> {
        let mut delivered = self.delivered.iter_mut();
        delivered
            .find(|it| it.number == number)
            .map(|it| (it.hash, &mut it.tags))
    }

    /// The certificate of a delivered number, with the tags that have come since.
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

    /// The slot of a number in the window, if there is data about it.
    pub(crate) fn known(&self, number: u64) -> Option<&S> {
        let idx = usize::try_from(number.checked_sub(self.next)?).ok()?;
        self.slots.get(idx)
    }

    /// The slot of a number in the window.
    pub(crate) fn slot(&mut self, sequence: u32, empty: impl Fn() -> S) -> &mut S {
        let idx = (u64::from(sequence) - self.next) as usize;
        while self.slots.len() <= idx {
            self.slots.push_back(empty());
        }
        &mut self.slots[idx]
    }

    /// All slots that have data.
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.slots.iter_mut()
    }

    /// Moves the window until it contains a proved number, and settles the numbers that it leaves behind. `first` is the
    /// first number that is proved with it.
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

    /// The sequencer authenticated two contents under one number.
    pub(crate) fn tell_evidence(&mut self, sequence: u32, first: Hash, second: Hash) {
        let epoch = self.epoch;
        self.events.push_back(Event::Evidence(Evidence {
            epoch,
            sequence,
            first,
            second,
        }));
    }

    /// Delivers complete messages. Gives up the head if it, or a number behind it, has been proved for too
    /// long.
    pub(crate) fn deliver(&mut self, now: Duration) {
        while self.is_settled(now) || self.is_late(now) {
            self.settle_head();
        }
    }

    /// The time when the head is delivered or given up, if no datagram settles it before.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let settled = self.slots.front().and_then(Slot::settled_at);
        settled.into_iter().chain(self.given_up_at()).min()
    }

    /// Ends the epoch: delivers complete messages and drops the other numbers, up to the last number if that
    /// is known.
    pub(crate) fn finish(mut self, last: Option<u32>) -> VecDeque<Event> {
        while self.slots.iter().any(|slot| slot.proved_at().is_some()) {
            self.settle_head();
        }
        let after = last.map_or(self.next, |last| u64::from(last) + 1);
        // A receiver that has proved nothing yet gets no events before its first number.
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
        proved.min().map(|at| at + PATIENCE)
    }

    /// The head becomes a message if it is complete, otherwise a drop.
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
        // Numbers end with the epoch's last, so the head has 32 bits.
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

    /// Keeps what the head was, for the case that it comes a second time.
    fn remember(&mut self, hash: Hash, tags: Vec<ShardTags>) {
        let number = self.next;
        self.delivered.push_back(Delivered { number, hash, tags });
        if self.delivered.len() > WINDOW as usize {
            self.delivered.pop_front();
        }
    }

    /// The numbers before `first`, of which there is one at least, have no message here.
    fn drop_until(&mut self, first: u64) {
        // Numbers end with the epoch's last, so both have 32 bits.
        let dropped = DropNotification {
            epoch: self.epoch,
            first: self.next as u32,
            last: (first - 1) as u32,
        };
        Event::Drop(dropped).queue(&mut self.events);
        self.next = first;
    }
}
