//! What the switch must have counted.

use std::collections::{BTreeMap, BTreeSet};

use conference_service::activity::Reading;

use crate::book::{Book, Fate, key_of};

#[derive(Default)]
pub struct Counts {
    /// Frames that came to a switch with a program.
    n_frames: u64,
    verdicts: BTreeMap<String, u64>,
    /// What each leg has sent since its socket signed in: packets, bytes, and packets above the rate.
    sent: BTreeMap<u16, (u64, u64, u64)>,
    /// How many packets each leg has received since it signed in.
    received: BTreeMap<u16, u64>,
    /// Legs whose counts the oracle cannot know. For them it takes over the counts of the next reading.
    unknown: BTreeSet<u16>,
    is_unknown: bool,
}

impl Counts {
    pub fn add(&mut self, fate: &Fate, len: u64, is_green: bool) {
        self.n_frames += 1;
        *self.verdicts.entry(fate.verdict.to_owned()).or_default() += 1;
        if let Some(leg) = fate.of {
            let (packets, bytes, red) = self.sent.entry(leg).or_default();
            *packets += 1;
            *bytes += len;
            *red += u64::from(!is_green);
        }
        for leg in &fate.copies {
            *self.received.entry(*leg).or_default() += 1;
        }
    }

    pub fn sends_anew(&mut self, leg: u16) {
        self.sent.remove(&leg);
    }

    pub fn receives_anew(&mut self, leg: u16) {
        self.received.remove(&leg);
    }

    /// Forgets legs that are not signed in.
    pub fn keep(&mut self, book: &Book) {
        self.sent.retain(|leg, _| book.bound.contains_key(leg));
        self.received.retain(|leg, _| book.bound.contains_key(leg));
        self.unknown.retain(|leg| book.bound.contains_key(leg));
    }

    /// Makes the oracle take over the counts that the next reading has for this leg.
    pub fn forget(&mut self, leg: u16) {
        self.unknown.insert(leg);
    }

    /// Makes the oracle take over all counts of the next reading.
    pub fn forget_all(&mut self) {
        self.is_unknown = true;
    }

    /// Checks that a reading has the counts that the switch must have counted.
    pub fn compare(&mut self, reading: &Reading, book: &Book) {
        let legs: Vec<u16> = book.bound.keys().copied().collect();
        let read: Vec<u16> = reading.sockets.keys().copied().collect();
        assert_eq!(read, legs, "legs in table sockets");
        let read: Vec<u16> = reading.receivers.keys().copied().collect();
        assert_eq!(read, legs, "legs in table receivers");
        if std::mem::take(&mut self.is_unknown) {
            let verdicts = reading.verdicts.iter();
            self.verdicts = verdicts
                .map(|(name, it)| (name.clone(), it.packets))
                .collect();
            self.n_frames = self.verdicts.values().sum();
            self.unknown = legs.iter().copied().collect();
        } else {
            self.compare_verdicts(reading);
        }
        for leg in legs {
            let (key, count, red) = &reading.sockets[&leg];
            let (port, address, udp_port, _) = key_of(&book.bound[&leg].place);
            assert_eq!(
                (key[0], key[2]),
                (port.into(), udp_port.into()),
                "{address}"
            );
            let sent = (count.packets, count.bytes, red.packets);
            let received = reading.receivers[&leg].packets;
            if self.unknown.remove(&leg) {
                self.sent.insert(leg, sent);
                self.received.insert(leg, received);
                continue;
            }
            let of = &book.bound[&leg];
            let expected = self.sent.get(&leg).copied().unwrap_or_default();
            assert_eq!(
                sent, expected,
                "packets, bytes and red packets that leg {leg} of {} has sent",
                of.participant
            );
            let expected = self.received.get(&leg).copied().unwrap_or_default();
            assert_eq!(
                received, expected,
                "packets that leg {leg} of {} received",
                of.participant
            );
        }
    }

    fn compare_verdicts(&self, reading: &Reading) {
        let sum: u64 = reading.verdicts.values().map(|it| it.packets).sum();
        assert_eq!(sum, self.n_frames, "all verdicts add up to all frames");
        for (name, count) in &reading.verdicts {
            let expected = self.verdicts.get(name).copied().unwrap_or(0);
            assert_eq!(count.packets, expected, "packets with verdict {name}");
        }
    }
}
