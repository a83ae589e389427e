//! Checks the events that the service sends, and demands a reason for each event that no request has caused.

use conference_api::{EventKind, LeftReason, Name};

use crate::book::{Bound, key_of};
use crate::bucket::Bucket;
use crate::day::{AtSwitch, Day};
use crate::service::GONE_S;

impl Day {
    /// Takes the events of the service, and demands a reason for each event that no request has caused.
    pub fn hear_events(&mut self) {
        let events = std::mem::take(&mut self.service.events);
        for (at, (conference, event)) in events.iter().enumerate() {
            match event {
                EventKind::SignedIn {
                    participant,
                    leg,
                    route,
                } => {
                    let who = (conference.clone(), participant.clone());
                    let number = self.leg_number(&who, leg);
                    let place = self.sockets[&number].place;
                    assert_eq!(
                        route,
                        &place.route(),
                        "leg {number} is signed in where its socket is"
                    );
                    self.signed_in(number, who, leg.clone());
                }
                EventKind::SignedOut { participant, leg } => {
                    let who = (conference.clone(), participant.clone());
                    let number = self.leg_number(&who, leg);
                    self.signed_out(number, events.get(at + 1));
                }
                EventKind::Left {
                    participant,
                    reason: reason @ (LeftReason::Gone | LeftReason::Expired),
                } => self.left_by_itself((conference.clone(), participant.clone()), *reason),
                _ => {}
            }
        }
    }

    fn leg_number(&self, who: &(Name, Name), leg: &Name) -> u16 {
        self.book.participant(who).expect("a participant").legs[leg]
    }

    fn signed_in(&mut self, leg: u16, (conference, participant): (Name, Name), name: Name) {
        let socket = &self.sockets[&leg];
        assert!(
            socket.is_on,
            "leg {leg} is signed in though its host is away"
        );
        let place = socket.place;
        let before = self.book.unbind(leg);
        match &before {
            Some(before) if key_of(&before.place) == key_of(&place) => {}
            Some(_) => {
                // The time since the last reading does not count, because the service cannot know what was sent in it.
                let (look_s, heard_s) = &self.last_look;
                let silent_s = match heard_s.get(&leg) {
                    Some(heard_s) if self.bound_s[&leg] <= *look_s => look_s - heard_s,
                    _ => 0,
                };
                assert!(
                    silent_s >= 3,
                    "leg {leg} was taken from a socket silent for {silent_s} s"
                );
                self.counts.sends_anew(leg);
                self.statistics.add("sockets that moved");
            }
            None => {
                self.counts.sends_anew(leg);
                self.counts.receives_anew(leg);
                if self.signed_out.contains(&leg) {
                    // The leg was signed out and in again between two writes, so the switch may keep the entry and its
                    // counters.
                    self.counts.forget(leg);
                }
            }
        }
        let bound = Bound {
            place,
            conference,
            participant,
            leg: name,
        };
        self.book.bind(leg, bound);
        let (_, kbps) = self.book.bounds_of(leg);
        match self.buckets.get_mut(&leg) {
            Some(bucket) if before.is_some_and(|it| key_of(&it.place) == key_of(&place)) => {
                bucket.loosen(kbps, self.now_s);
            }
            _ => {
                self.buckets.insert(leg, Bucket::new(kbps, self.now_s));
            }
        }
        self.bound_s.insert(leg, self.now_s);
        self.heard_s.insert(leg, self.now_s);
        self.statistics.add("sign-ins");
    }

    fn signed_out(&mut self, leg: u16, next: Option<&(Name, EventKind)>) {
        let bound = self.book.bound.get(&leg).expect("it was signed in");
        let taker = match next {
            Some((_, EventKind::SignedIn { route, .. })) => *route == bound.place.route(),
            _ => false,
        };
        if taker {
            self.statistics.add("sockets that went to another leg");
        } else {
            let silent = self.found_silent.get(&leg);
            let place = Some(&bound.place);
            assert_eq!(
                silent, place,
                "leg {leg} was signed out, and what was silent"
            );
            self.statistics.add("sign-outs for silence");
        }
        self.unbind(leg);
        self.signed_out.insert(leg);
    }

    /// Records in the book that a leg is not signed in any more.
    pub fn unbind(&mut self, leg: u16) {
        if self.book.unbind(leg).is_some() && matches!(self.at_switch, AtSwitch::Live) {
            self.buckets.remove(&leg);
            self.counts.sends_anew(leg);
            self.counts.receives_anew(leg);
        }
    }

    fn left_by_itself(&mut self, who: (Name, Name), reason: LeftReason) {
        let participant = self.book.participant(&who).expect("it was there");
        match reason {
            LeftReason::Expired => {
                assert!(
                    participant.expires_s <= self.now_s,
                    "{who:?}'s token has not ended"
                );
                self.statistics.add("tokens that ended");
            }
            _ => {
                let absent_s = self.now_s - self.absent_s[&who];
                assert!(absent_s >= GONE_S, "{who:?} is gone after {absent_s} s");
                self.statistics.add("participants that were gone");
            }
        }
        self.remove_participant(&who);
    }

    pub fn joined(&mut self, who: &(Name, Name)) {
        self.absent_s.insert(who.clone(), self.now_s);
    }

    pub fn forget_participant(&mut self, who: &(Name, Name)) {
        self.absent_s.remove(who);
        self.streams.remove(who);
        self.asked.remove(who);
    }
}
