//! Numbers in order: complete ones are delivered, and those that are not complete in time are dropped.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::certificate::{Certificate, Proof};
use crate::chain::Hash;
use crate::event::{DropNotification, Event, Evidence, Message};
use crate::limits::{FIRST_PROVED, PATIENCE, WINDOW};

/// The state of one number.
pub(crate) trait Slot {
    /// The time since which it is proved that the sequencer gave the number.
    fn proved_at(&self) -> Option<Duration>;

    /// Whether the message is complete, so that it can be delivered.
    fn is_whole(&self) -> bool;

    /// The message to deliver; `None` if it is not complete.
    fn into_delivery(self) -> Option<Delivery>;
}

/// A message with its proof.
pub(crate) struct Delivery {
    pub(crate) payload: Vec<u8>,
    /// The hash that is compared if the number comes a second time.
    pub(crate) hash: Hash,
    pub(crate) proof: Proof,
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
    /// The hashes of the last delivered messages; the newest at the end.
    delivered: VecDeque<(u64, Hash)>,
    told: Told,
}

/// Events that are still to be polled.
#[derive(Debug, Default)]
pub(crate) struct Told(VecDeque<Item>);

#[derive(Debug)]
enum Item {
    Event(Event),
    /// Numbers without a message, as a range: a long gap may have billions.
    Drops {
        epoch: u64,
        numbers: Range<u64>,
    },
}

impl<S: Slot> Order<S> {
    /// `told` are the events of the previous epoch that were not yet polled.
    pub(crate) fn new(group: u16, epoch: u64, first: u32, told: Told) -> Order<S> {
        Order {
            group,
            epoch,
            next: u64::from(first.max(1)),
            is_open: first == FIRST_PROVED,
            slots: VecDeque::new(),
            delivered: VecDeque::new(),
            told,
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.told.poll()
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
        delivered
            .find(|(delivered, _)| *delivered == number)
            .map(|(_, hash)| *hash)
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
    }

    /// The sequencer authenticated two contents under one number.
    pub(crate) fn tell_evidence(&mut self, sequence: u32, first: Hash, second: Hash) {
        let epoch = self.epoch;
        self.told.push(Event::Evidence(Evidence {
            epoch,
            sequence,
            first,
            second,
        }));
    }

    /// Delivers complete messages. Gives up the head if it, or a number behind it, has been proved for too
    /// long.
    pub(crate) fn deliver(&mut self, now: Duration) {
        while self.slots.front().is_some_and(Slot::is_whole) || self.is_late(now) {
            self.settle_head();
        }
    }

    /// The time when the head is given up, if nothing settles it before.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        let known = self.slots.iter().filter_map(Slot::proved_at);
        known.min().map(|at| at + PATIENCE)
    }

    /// Ends the epoch: delivers complete messages and drops the other numbers, up to the last number if that
    /// is known.
    pub(crate) fn finish(mut self, last: Option<u32>) -> Told {
        while self.slots.iter().any(|slot| slot.proved_at().is_some()) {
            self.settle_head();
        }
        let after = last.map_or(self.next, |last| u64::from(last) + 1);
        // A receiver that has proved nothing yet gets no events before its first number.
        if self.next < after && !self.is_open {
            self.drop_until(after);
        }
        self.told
    }

    fn is_late(&self, now: Duration) -> bool {
        self.timeout().is_some_and(|at| at <= now)
    }

    /// The head becomes a message if it is complete, otherwise a drop.
    fn settle_head(&mut self) {
        let Some(delivery) = self.slots.pop_front().and_then(Slot::into_delivery) else {
            self.drop_until(self.next + 1);
            return;
        };
        self.delivered.push_back((self.next, delivery.hash));
        if self.delivered.len() > WINDOW as usize {
            self.delivered.pop_front();
        }
        let (group, epoch) = (self.group, self.epoch);
        // Numbers end with the epoch's last, so the head has 32 bits.
        let sequence = self.next as u32;
        self.told.push(Event::Message(Message {
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

    /// The numbers before `first` have no message here.
    fn drop_until(&mut self, first: u64) {
        let epoch = self.epoch;
        let numbers = self.next..first;
        self.told.0.push_back(Item::Drops { epoch, numbers });
        self.next = first;
    }
}

impl Told {
    fn push(&mut self, event: Event) {
        self.0.push_back(Item::Event(event));
    }

    fn poll(&mut self) -> Option<Event> {
        let Item::Drops { epoch, numbers } = self.0.front_mut()? else {
            return match self.0.pop_front() {
                Some(Item::Event(event)) => Some(event),
                _ => None,
            };
        };
        let epoch = *epoch;
        // Numbers end with the epoch's last, so each has 32 bits.
        let sequence = numbers.next().map(|number| number as u32);
        if numbers.is_empty() {
            self.0.pop_front();
        }
        sequence.map(|sequence| Event::Drop(DropNotification { epoch, sequence }))
    }
}
