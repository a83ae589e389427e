//! The events of a receiver.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::certificate::Certificate;
use crate::chain::Hash;

/// What happened in a group, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The next message.
    Message(Message),
    /// The next numbers have no message at this receiver.
    Drop(DropNotification),
    /// The sequencer authenticated two contents under one number.
    Evidence(Evidence),
}

/// A message that the sequencer ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its epoch.
    pub epoch: u64,
    /// Its number in the epoch, from 1 on.
    pub sequence: u32,
    /// The sender's payload.
    pub payload: Vec<u8>,
    /// The proof for other members.
    pub certificate: Certificate,
}

/// Numbers, one after the other, whose messages, or parts of their proofs, did not come in time. They are a range,
/// since one packet can leave billions of numbers behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropNotification {
    /// Their epoch.
    pub epoch: u64,
    /// The first number.
    pub first: u32,
    /// The last number.
    pub last: u32,
}

/// Two contents of one number, both authenticated by the sequencer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// The epoch.
    pub epoch: u64,
    /// The number that was used twice.
    pub sequence: u32,
    /// The first content: SHA-256 of the message (AOM-HM), the packet's state (AOM-PK).
    pub first: Hash,
    /// The second content, in the same form.
    pub second: Hash,
}

impl DropNotification {
    /// The numbers; there may be billions.
    #[must_use]
    pub fn numbers(self) -> RangeInclusive<u32> {
        self.first..=self.last
    }

    /// This and the numbers that follow it, as one range; `None` if they do not follow it.
    #[must_use]
    pub fn followed_by(self, next: DropNotification) -> Option<DropNotification> {
        let follows = next.epoch == self.epoch && self.last.checked_add(1) == Some(next.first);
        follows.then_some(DropNotification {
            last: next.last,
            ..self
        })
    }
}

impl Event {
    /// Puts an event behind others. Drops that follow drops become one event, so that numbers without messages fill no
    /// queue.
    pub fn queue(self, events: &mut VecDeque<Event>) {
        if let Event::Drop(next) = self
            && let Some(Event::Drop(last)) = events.back_mut()
            && let Some(both) = last.followed_by(next)
        {
            *last = both;
        } else {
            events.push_back(self);
        }
    }

    /// The bytes that it holds in memory, without its own structure.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Event::Message(message) => message.payload.len() + message.certificate.heap_bytes(),
            Event::Drop(_) | Event::Evidence(_) => 0,
        }
    }
}
