//! The events of a receiver.

use crate::certificate::Certificate;
use crate::chain::Hash;

/// What happened in a group, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The next message.
    Message(Message),
    /// The next number has no message at this receiver.
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

/// A number whose message, or part of its proof, did not come in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DropNotification {
    /// Its epoch.
    pub epoch: u64,
    /// The number.
    pub sequence: u32,
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
