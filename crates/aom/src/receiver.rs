//! A receiver of either variant: bytes and the time go in, events come out.

use std::collections::VecDeque;
use std::time::Duration;

use crate::certificate::Certificate;
use crate::event::Event;
use crate::membership::{Membership, MembershipError, Sequencer};
use crate::order::Order;
use crate::refused::{Refusal, Refused};
use crate::signed::{self, SignedSlot};
use crate::tagged::{self, TaggedSlot};
use crate::wire::{Authenticator, Packet};

/// A receiver that trusts the network not to lie, but expects it to lose, reorder and repeat packets. For an
/// untrusted network use [`Confirming`](crate::confirm::Confirming).
///
/// Time is a duration since any fixed moment, and never runs backwards. Work for a datagram: SHA-256 of its
/// message, and one tag (AOM-HM), or a signature if it has one (AOM-PK). Memory: at most
/// [`WINDOW`](crate::limits::WINDOW) numbers, each with its message and
/// [`CANDIDATES_MAX`](crate::limits::CANDIDATES_MAX) tags a shard or hashes a signature;
/// [`UNPROVED_BYTES_MAX`](crate::limits::UNPROVED_BYTES_MAX) of messages without a proof; and the events that were not
/// yet polled, of which a datagram gives at most two a number of the window.
#[derive(Debug)]
pub struct Receiver {
    membership: Membership,
    collector: Collector,
    refused: Refused,
}

#[derive(Debug)]
enum Collector {
    Tagged(Order<TaggedSlot>),
    Signed(Order<SignedSlot>),
}

impl Receiver {
    /// A receiver that begins with number `first`, or, with [`FIRST_PROVED`](crate::limits::FIRST_PROVED), with the first
    /// that it can prove.
    ///
    /// # Errors
    ///
    /// If the numbers of the membership are invalid.
    pub fn new(membership: Membership, first: u32) -> Result<Receiver, MembershipError> {
        membership.check()?;
        Ok(Receiver {
            collector: Collector::new(&membership, first, VecDeque::new()),
            membership,
            refused: Refused::default(),
        })
    }

    /// Takes a datagram.
    pub fn handle_datagram(&mut self, now: Duration, datagram: &[u8]) {
        if let Err(refusal) = self.take(now, datagram) {
            self.refused.count(refusal);
        }
        self.handle_timeout(now);
    }

    /// To be called at the time that [`poll_timeout`](Self::poll_timeout) named.
    pub fn handle_timeout(&mut self, now: Duration) {
        match &mut self.collector {
            Collector::Tagged(order) => order.deliver(now),
            Collector::Signed(order) => order.deliver(now),
        }
    }

    /// The time when the next number is given up, if no datagram settles it before.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        match &self.collector {
            Collector::Tagged(order) => order.timeout(),
            Collector::Signed(order) => order.timeout(),
        }
    }

    /// The next event. After each datagram and timeout, call it until it returns none.
    pub fn poll_event(&mut self) -> Option<Event> {
        match &mut self.collector {
            Collector::Tagged(order) => order.poll_event(),
            Collector::Signed(order) => order.poll_event(),
        }
    }

    /// The certificate of one of the last [`WINDOW`](crate::limits::WINDOW) messages of this epoch, with what has come
    /// since its delivery (AOM-HM): if somebody sends false tags, it convinces members that the message's own
    /// certificate does not. `None` if the message's own certificate is all that there is.
    #[must_use]
    pub fn certificate(&self, sequence: u32) -> Option<Certificate> {
        match &self.collector {
            Collector::Tagged(order) => order.certificate(sequence),
            Collector::Signed(_) => None,
        }
    }

    /// The number of refused packets.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// The current membership.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Begins the next epoch with its number 1. `last` is the last number of the old epoch, if the
    /// configuration service knows it: missing numbers up to it are dropped, even if no later number came.
    /// Complete messages of the old epoch are delivered first, the other numbers are dropped, and no further
    /// packet of it is accepted.
    ///
    /// # Errors
    ///
    /// If the numbers of the membership are invalid; then nothing changes.
    pub fn advance(
        &mut self,
        membership: Membership,
        last: Option<u32>,
    ) -> Result<(), MembershipError> {
        membership.check()?;
        let empty = Collector::new(&membership, 1, VecDeque::new());
        let events = match std::mem::replace(&mut self.collector, empty) {
            Collector::Tagged(order) => order.finish(last),
            Collector::Signed(order) => order.finish(last),
        };
        self.collector = Collector::new(&membership, 1, events);
        self.membership = membership;
        Ok(())
    }

    fn take(&mut self, now: Duration, datagram: &[u8]) -> Result<(), Refusal> {
        let packet = Packet::read(datagram).map_err(|_| Refusal::Malformed)?;
        let (stamp, message) = (packet.stamp, packet.message);
        if stamp.group != self.membership.group {
            return Err(Refusal::OtherGroup);
        }
        if u64::from(stamp.epoch) != self.membership.epoch {
            return Err(Refusal::OtherEpoch);
        }
        if stamp.sequence == 0 {
            return Err(Refusal::NoNumber);
        }
        match (
            &mut self.collector,
            packet.authenticator,
            self.membership.sequencer,
        ) {
            (Collector::Tagged(order), Authenticator::Tags(tags), Sequencer::Tagging(key)) => {
                tagged::take(order, &self.membership, key, now, (stamp, tags, message))
            }
            (
                Collector::Signed(order),
                Authenticator::Chained { signature, link },
                Sequencer::Signing(key),
            ) => {
                let packet = (stamp, signature, link, message);
                signed::take(order, &key, now, &mut self.refused, packet)
            }
            _ => Err(Refusal::Malformed),
        }
    }
}

impl Collector {
    fn new(membership: &Membership, first: u32, events: VecDeque<Event>) -> Collector {
        let Membership { group, epoch, .. } = *membership;
        match membership.sequencer {
            Sequencer::Tagging(_) => Collector::Tagged(Order::new(group, epoch, first, events)),
            Sequencer::Signing(_) => Collector::Signed(Order::new(group, epoch, first, events)),
        }
    }
}
