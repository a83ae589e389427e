//! Events that a receiver returns.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use crate::certificate::Certificate;
use crate::chain::Hash;

/// What happened in a group. Messages and drops come in the order of their sequence numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The message with the next sequence number.
    Message(Message),
    /// This receiver has no message for the next sequence numbers.
    Drop(DropNotification),
    /// The sequencer authenticated two contents under one sequence number.
    Evidence(Evidence),
}

/// A message that the sequencer ordered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The epoch of the sequence number.
    pub epoch: u64,
    /// The sequence number, from 1 on in each epoch.
    pub sequence: u32,
    /// The sender's payload.
    pub payload: Vec<u8>,
    /// Proves the sequence number to other members.
    pub certificate: Certificate,
}

/// Consecutive sequence numbers whose messages, or parts of their proofs, did not come in time. It is a range, since
/// one packet can skip billions of sequence numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropNotification {
    /// The epoch of the sequence numbers.
    pub epoch: u64,
    /// The first dropped sequence number.
    pub first: u32,
    /// The last dropped sequence number.
    pub last: u32,
}

/// Two contents of one sequence number, both authenticated by the sequencer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evidence {
    /// The epoch of the sequence number.
    pub epoch: u64,
    /// The sequence number that was used twice.
    pub sequence: u32,
    /// The first content: SHA-256 of the message (AOM-HM), or the packet's state (AOM-PK), a hash of message and link.
    pub first: Hash,
    /// The second content, in the same form.
    pub second: Hash,
}

impl DropNotification {
    /// The dropped sequence numbers; there may be billions.
    #[must_use]
    pub fn numbers(self) -> RangeInclusive<u32> {
        self.first..=self.last
    }

    /// Merges two ranges if `next` directly follows this one in the same epoch.
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
    /// Appends the event to a queue. A drop that directly follows a queued drop is merged into it, so that dropped
    /// sequence numbers do not fill the queue.
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

    /// Returns how many bytes the event holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match self {
            Event::Message(message) => message.payload.len() + message.certificate.heap_bytes(),
            Event::Drop(_) | Event::Evidence(_) => 0,
        }
    }
}
