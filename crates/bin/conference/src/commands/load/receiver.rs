//! What one participant receives.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use conference_client::relay::is_rtcp;
use conference_client::sequence::{Seen, Sequence};
use conference_client::{Arrival, now_ns};
use tokio::time::Instant;

use super::packet::Label;
use super::tally::Tally;

/// What a participant receives of one publisher.
enum Slot {
    /// The participant has not subscribed to the publisher.
    Nothing,
    /// The participant has subscribed, and nothing has come. The publisher had sent `sent` packets when the participant
    /// had all its subscriptions and was signed in.
    Waiting {
        sent: Option<u64>,
    },
    Receiving(Sequence),
}

/// Counts what one participant receives from the time when it joins until it leaves.
pub struct Receiver<'s> {
    run: u64,
    tally: &'s RefCell<Tally>,
    /// Packets that each publisher has sent.
    sent: &'s [Cell<u64>],
    slots: Vec<Slot>,
    /// When the participant began to join; `None` once the first packet has come.
    joins_since: Option<Instant>,
    n_dropped: u32,
}

impl<'s> Receiver<'s> {
    /// `joins_since` is given if the time to the first packet is to be measured.
    pub fn new(
        run: u64,
        tally: &'s RefCell<Tally>,
        sent: &'s [Cell<u64>],
        joins_since: Option<Instant>,
    ) -> Receiver<'s> {
        Receiver {
            run,
            tally,
            sent,
            slots: sent.iter().map(|_| Slot::Nothing).collect(),
            joins_since,
            n_dropped: 0,
        }
    }

    /// Called when the participant asks for a subscription to a publisher: packets may come before the service's
    /// answer.
    pub fn subscribes_to(&mut self, publisher: usize) {
        self.slots[publisher] = Slot::Waiting { sent: None };
    }

    /// Called when the participant is in the conference with all its subscriptions, and is signed in.
    pub fn is_present(&mut self) {
        for (slot, now) in self.slots.iter_mut().zip(self.sent) {
            if let Slot::Waiting { sent } = slot {
                *sent = Some(now.get());
            }
        }
    }

    pub fn take(&mut self, packet: &[u8], arrival: &Arrival) {
        let mut tally = self.tally.borrow_mut();
        if let Some(n) = arrival.n_dropped {
            tally.n_dropped_here += u64::from(n.wrapping_sub(self.n_dropped));
            self.n_dropped = n;
        }
        if is_rtcp(packet) {
            tally.n_reports += 1;
            return;
        }
        let label = Label::read(packet).filter(|label| label.run == self.run);
        let slot = label.and_then(|label| {
            let slot = self.slots.get_mut(usize::try_from(label.publisher).ok()?)?;
            Some((label, slot))
        });
        let (label, slot) = match slot {
            Some((label, slot)) if !matches!(slot, Slot::Nothing) => (label, slot),
            _ => {
                tally.n_foreign += 1;
                return;
            }
        };
        if let Slot::Receiving(sequence) = slot {
            match sequence.take(label.number) {
                Seen::New { skipped } => tally.n_lost += skipped.end - skipped.start,
                Seen::Late => tally.n_lost -= 1,
                Seen::Again => {
                    tally.n_again += 1;
                    return;
                }
            }
        } else {
            *slot = Slot::Receiving(Sequence::starting_at(label.number));
        }
        tally.packet_after(Duration::from_nanos(
            arrival.time_ns.saturating_sub(label.sent_ns),
        ));
        if let Some(since) = self.joins_since.take() {
            // The packet has waited in the kernel until this process read it. This time does not count.
            let waited = Duration::from_nanos(now_ns().saturating_sub(arrival.time_ns));
            tally.first_packet_after(since.elapsed().saturating_sub(waited));
        }
    }

    /// Called if the participant has stayed until all publishers had ended and their last packets had had time to come.
    /// Counts as lost the last packets of each publisher that have not come. Returns how many publishers have sent at
    /// least `least` packets of which none has come.
    pub fn end(self, least: u64) -> usize {
        let mut n_silent = 0;
        let mut tally = self.tally.borrow_mut();
        for (slot, sent) in self.slots.iter().zip(self.sent) {
            match slot {
                Slot::Receiving(sequence) => {
                    tally.n_lost += sent.get().saturating_sub(sequence.highest() + 1);
                }
                Slot::Waiting { sent: Some(then) } => {
                    n_silent += usize::from(sent.get() - then >= least);
                }
                Slot::Waiting { sent: None } | Slot::Nothing => {}
            }
        }
        n_silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::load::packet::LEN_MIN;

    fn packet(run: u64, publisher: u32, number: u64) -> Vec<u8> {
        let mut packet = vec![0; LEN_MIN];
        let label = Label {
            run,
            publisher,
            number,
            sent_ns: 1_000_000,
        };
        label.write(&mut packet);
        packet
    }

    const ARRIVAL: Arrival = Arrival {
        len: LEN_MIN,
        time_ns: 3_000_000,
        n_dropped: None,
    };

    #[test]
    fn lost_repeated_late_and_last_packets_are_counted() {
        let tally = RefCell::new(Tally::default());
        let sent = [Cell::new(0), Cell::new(0)];
        let mut receiver = Receiver::new(7, &tally, &sent, Some(Instant::now()));
        receiver.subscribes_to(0);
        receiver.subscribes_to(1);
        receiver.is_present();
        for number in [5, 6, 9, 8, 9] {
            receiver.take(&packet(7, 0, number), &ARRIVAL);
        }
        let dropped = Arrival {
            n_dropped: Some(3),
            ..ARRIVAL
        };
        receiver.take(&packet(7, 0, 10), &dropped);
        receiver.take(&packet(7, 0, 11), &dropped);
        {
            let tally = tally.borrow();
            assert_eq!((tally.n_packets, tally.n_lost, tally.n_again), (6, 1, 1));
            assert_eq!((tally.n_foreign, tally.n_dropped_here), (0, 3));
            assert_eq!(tally.to_json()["delay_ms"]["max"], 2.0);
            assert_eq!(tally.to_json()["first_packet_ms"]["n"], 1);
        }
        // One publisher has sent 14 packets, numbers 0 to 13; the other publisher has sent 100, none of which came.
        sent[0].set(14);
        sent[1].set(100);
        assert_eq!(receiver.end(100), 1);
        assert_eq!(tally.borrow().n_lost, 3);
    }

    #[test]
    fn what_was_not_subscribed_or_is_of_another_run_is_foreign() {
        let tally = RefCell::new(Tally::default());
        let sent = [Cell::new(0), Cell::new(0)];
        let mut receiver = Receiver::new(7, &tally, &sent, None);
        receiver.subscribes_to(0);
        receiver.take(&packet(7, 1, 0), &ARRIVAL);
        receiver.take(&packet(8, 0, 0), &ARRIVAL);
        receiver.take(&packet(7, 2, 0), &ARRIVAL);
        receiver.take(b"\x80\x60 of others", &ARRIVAL);
        let report = [0x80, 201, 0, 1, 0, 0, 0, 1];
        receiver.take(&report, &ARRIVAL);
        let counted = tally.borrow();
        assert_eq!((counted.n_foreign, counted.n_reports), (4, 1));
        assert_eq!(counted.n_packets, 0);
    }
}
