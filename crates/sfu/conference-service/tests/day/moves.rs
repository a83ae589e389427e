//! The actions of hosts: they open sockets for legs, vanish, come back and move.

use conference_api::Name;
use conference_model::BindingRecord;
use hello::SigningIn;

use crate::actions::Who;
use crate::book::key_of;
use crate::day::Day;
use crate::hosts::Socket;
use crate::service::{DAWN_MS, SILENCE_S};

/// How many seconds a host goes on sending hellos for a leg that has ended.
const ZOMBIE_S: u64 = 3;

impl Day {
    pub fn end_leg(&mut self, leg: u16) {
        self.unbind(leg);
        if let Some(socket) = self.sockets.remove(&leg)
            && socket.is_on
            && self.rng.bool()
        {
            self.zombies.push((self.now_s + ZOMBIE_S, leg, socket));
        }
    }

    /// Makes hosts that do not know that their legs have ended send hellos. Checks that a hello gets no answer once the
    /// leg is gone from the switch.
    pub fn say_hellos_of_zombies(&mut self) {
        for at in 0..self.zombies.len() {
            let (_, leg, socket) = &mut self.zombies[at];
            let (leg, place) = (*leg, socket.place);
            let now = std::time::Duration::from_secs(self.now_s);
            let Some(bytes) = socket.signing.hello(now, DAWN_MS) else {
                continue;
            };
            let is_gone = !self.is_at_switch(leg);
            let Some(came) = self.say(&place, &bytes) else {
                continue;
            };
            assert!(
                came.is_empty() || !is_gone,
                "the hello of a leg that has ended is answered"
            );
            self.statistics.add("hellos of ended legs");
        }
    }

    /// Checks that the service has, after a request, exactly the legs for a participant that the book demands. The book
    /// is what the test's oracle knows. Makes sockets for new legs.
    pub fn meet_legs(&mut self, who: &Who) {
        let record = self.service.model.participant(&who.0, &who.1);
        let given = record.expect("it is there").legs.clone();
        let participant = self.book.participant(who).expect("it is there");
        let names = participant.leg_names();
        let there: Vec<&Name> = given.keys().collect();
        assert_eq!(
            there,
            names.iter().collect::<Vec<_>>(),
            "the legs of {who:?}"
        );
        let before = participant.legs.clone();
        for (leg, number) in &before {
            match given.get(leg) {
                Some(still) => assert_eq!(still.number, *number, "leg {leg} of {who:?}"),
                None => self.end_leg(*number),
            }
        }
        for (leg, record) in &given {
            if before.contains_key(leg) {
                continue;
            }
            assert!(
                !self.sockets.contains_key(&record.number),
                "a number is given twice"
            );
            let host = self.hosts[who].clone();
            let mut place = self.places.socket(&host.base);
            if self.rng.u8(..12) == 0
                && let Some(taken) = self.place_of_somebody_away()
            {
                place = taken;
            }
            let socket = Socket {
                owner: who.clone(),
                signing: SigningIn::new(record.number.into(), record.key),
                place,
                is_on: host.is_on,
                since_s: self.now_s,
                is_answered: false,
            };
            self.sockets.insert(record.number, socket);
        }
        let legs = given.into_iter().map(|(leg, record)| (leg, record.number));
        self.book.participant_mut(who).legs = legs.collect();
    }

    /// Chooses an address that its host has left without signing out, so that a router may give it to the next host.
    fn place_of_somebody_away(&mut self) -> Option<BindingRecord> {
        let away = self.sockets.iter().filter(|(_, it)| !it.is_on);
        let bound = away.filter_map(|(leg, _)| Some(self.book.bound.get(leg)?.place));
        let free = bound.filter(|place| {
            let mut on = self.sockets.values().filter(|it| it.is_on);
            on.all(|it| key_of(&it.place) != key_of(place))
        });
        let free = free.collect();
        self.one(free)
    }

    pub fn legs_of(&self, who: &Who) -> Vec<u16> {
        let participant = self.book.participant(who);
        participant.map_or_else(Vec::new, |it| it.legs.values().copied().collect())
    }

    pub fn vanish(&mut self) -> Option<()> {
        let who = self.somebody(|_| true)?;
        self.hosts.get_mut(&who)?.is_on = false;
        self.streams.remove(&who);
        for leg in self.legs_of(&who) {
            self.sockets.get_mut(&leg)?.is_on = false;
        }
        self.statistics.add("hosts that vanished");
        let heard_s = self.legs_of(&who).into_iter();
        let heard_s = heard_s.filter_map(|it| self.heard_s.get(&it)).max();
        if let Some(heard_s) = heard_s
            && self.rng.bool()
        {
            // The host comes back just when its sockets are signed out for their silence.
            let back_s = heard_s + SILENCE_S + self.rng.u64(..6);
            self.returns.push((back_s, who));
        }
        Some(())
    }

    /// Brings back the hosts whose return is due.
    pub fn return_hosts(&mut self) {
        let now_s = self.now_s;
        let (due, later) = std::mem::take(&mut self.returns)
            .into_iter()
            .partition(|(back_s, _)| *back_s <= now_s);
        self.returns = later;
        let due: Vec<(u64, Who)> = due;
        for (_, who) in due {
            if self.hosts.get(&who).is_some_and(|it| !it.is_on) {
                self.bring_back(who);
            }
        }
    }

    pub fn come_back_elsewhere(&mut self) -> Option<()> {
        let off = self.hosts.iter().filter(|(_, it)| !it.is_on);
        let who = self.one(off.map(|(who, _)| who.clone()).collect())?;
        self.bring_back(who)
    }

    fn bring_back(&mut self, who: Who) -> Option<()> {
        self.hosts.get_mut(&who)?.is_on = true;
        self.settle_elsewhere(&who);
        self.statistics.add("hosts that came back");
        Some(())
    }

    pub fn move_host(&mut self) -> Option<()> {
        let who = self.somebody(|it| !it.legs.is_empty())?;
        self.settle_elsewhere(&who);
        self.statistics.add("hosts that moved");
        Some(())
    }

    /// Gives all sockets of a host other addresses. The host's program is then either a new process, or the same
    /// process, which does not notice the move.
    fn settle_elsewhere(&mut self, who: &Who) {
        let base = self.places.host(&mut self.rng);
        let is_new_process = self.rng.bool();
        if let Some(host) = self.hosts.get_mut(who) {
            host.base = base;
        }
        for leg in self.legs_of(who) {
            let place = self.places.socket(&base);
            let given = self.service.model.leg_record(leg).expect("it is there").key;
            let socket = self.sockets.get_mut(&leg).expect("a socket of each leg");
            assert_eq!(&socket.owner, who);
            (socket.place, socket.since_s, socket.is_on) = (place, self.now_s, true);
            if is_new_process {
                socket.signing = SigningIn::new(leg.into(), given);
            }
        }
    }

    /// Makes a host use the socket of one leg for another leg.
    pub fn use_for_another_leg(&mut self) -> Option<()> {
        let who = self.somebody(|it| it.legs.len() > 1)?;
        let legs = self.legs_of(&who);
        let of = legs
            .iter()
            .copied()
            .filter(|it| self.sockets[it].is_on && self.book.bound.contains_key(it));
        let of: Vec<u16> = of.collect();
        let from = self.rng.choice(of)?;
        let others = legs
            .into_iter()
            .filter(|it| *it != from && self.sockets[it].is_on);
        let others: Vec<u16> = others.collect();
        let to = self.rng.choice(others)?;
        let place = self.sockets[&from].place;
        self.sockets.get_mut(&from)?.is_on = false;
        let socket = self.sockets.get_mut(&to)?;
        (socket.place, socket.since_s) = (place, self.now_s);
        self.statistics.add("sockets for another leg");
        Some(())
    }
}
