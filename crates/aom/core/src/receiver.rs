//! The receiver of AOM-HM and AOM-PK, without I/O: the caller passes in datagrams and the time, and polls events.

use std::collections::VecDeque;
use std::time::Duration;

use crate::certificate::Certificate;
use crate::event::Event;
use crate::membership::{Membership, MembershipError, Sequencer};
use crate::order::Order;
use crate::refused::{Refusal, Refused};
use crate::signed::{self, Chained, SignedSlot};
use crate::tagged::{self, TaggedSlot};
use crate::wire::{Authenticator, Packet};

/// A receiver for a trusted network. Such a network may lose, reorder and repeat packets, but the sequencer does not
/// give different messages to different members under one sequence number. For an untrusted network use
/// [`Confirming`](crate::confirm::Confirming).
///
/// Times are durations since any fixed moment, and must never decrease. For each datagram the receiver computes SHA-256
/// of the message. It also computes one tag (AOM-HM) or, if the packet is signed, verifies one signature (AOM-PK). The
/// memory holds:
///
/// - at most [`WINDOW`](crate::limits::WINDOW) sequence numbers, each with its message and its proof: at most
///   [`CANDIDATES_MAX`](crate::limits::CANDIDATES_MAX) sets of tags per shard (AOM-HM), or a signature and the hashes
///   of the messages that it proves (AOM-PK);
/// - at most [`UNPROVED_BYTES_MAX`](crate::limits::UNPROVED_BYTES_MAX) bytes of messages without a proof;
/// - events that the caller has not polled: a datagram adds at most two for each sequence number of the window.
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
    /// Creates a receiver that starts at sequence number `first`. If `first` is
    /// [`FIRST_PROVED`](crate::limits::FIRST_PROVED), the receiver starts at the first sequence number that it can
    /// prove.
    ///
    /// # Errors
    ///
    /// If `Membership::check` refuses the membership.
    pub fn new(membership: Membership, first: u32) -> Result<Receiver, MembershipError> {
        membership.check()?;
        Ok(Receiver {
            collector: Collector::new(&membership, first, VecDeque::new()),
            membership,
            refused: Refused::default(),
        })
    }

    /// Handles a datagram from the sequencer. A refused datagram is counted by reason.
    pub fn handle_datagram(&mut self, now: Duration, datagram: &[u8]) {
        if let Err(refusal) = self.take(now, datagram) {
            self.refused.count(refusal);
        }
        self.handle_timeout(now);
    }

    /// Must be called at the time that [`poll_timeout`](Self::poll_timeout) returned.
    pub fn handle_timeout(&mut self, now: Duration) {
        match &mut self.collector {
            Collector::Tagged(order) => order.deliver(now),
            Collector::Signed(order) => order.deliver(now),
        }
    }

    /// Returns the time of the next delivery or drop, unless a datagram causes a delivery or drop earlier.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        match &self.collector {
            Collector::Tagged(order) => order.timeout(),
            Collector::Signed(order) => order.timeout(),
        }
    }

    /// Returns the next event. After each datagram and timeout, call it until it returns `None`.
    pub fn poll_event(&mut self) -> Option<Event> {
        match &mut self.collector {
            Collector::Tagged(order) => order.poll_event(),
            Collector::Signed(order) => order.poll_event(),
        }
    }

    /// Returns the certificate of one of the last [`WINDOW`](crate::limits::WINDOW) messages of this epoch, including
    /// tags that came after its delivery (AOM-HM). If an attacker sent false tags, some members accept this certificate
    /// and refuse the certificate in the message's event. Returns `None` if the certificate in the message's event is
    /// the only one.
    #[must_use]
    pub fn certificate(&self, sequence: u32) -> Option<Certificate> {
        match &self.collector {
            Collector::Tagged(order) => order.certificate(sequence),
            Collector::Signed(_) => None,
        }
    }

    /// Returns the number of refused packets, by reason.
    #[must_use]
    pub fn refused(&self) -> Refused {
        self.refused
    }

    /// The membership of the current epoch.
    #[must_use]
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Starts the next epoch at sequence number 1. Complete messages of the old epoch are delivered first, its other
    /// sequence numbers are dropped, and no further packet of the old epoch is accepted. `last` is the old epoch's last
    /// sequence number, if the configuration service knows it: the receiver then also reports a drop of the numbers up
    /// to `last` of which it has seen no packet.
    ///
    /// # Errors
    ///
    /// If `Membership::check` refuses the membership; then nothing changes.
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
        let Packet { stamp, message, .. } = packet;
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
                tagged::take(order, &self.membership, key, now, &packet, tags)
            }
            (
                Collector::Signed(order),
                Authenticator::Chained { signature, link },
                Sequencer::Signing(key),
            ) => {
                let packet = Chained {
                    stamp,
                    signature,
                    link,
                    message,
                };
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
