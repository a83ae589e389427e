//! Checks what must be true after each second, each minute and each hour, according to the book, which the test's
//! oracle keeps.

use conference_model::Model;
use conference_service::rows::Rows;

use crate::day::{AtSwitch, Day, LATE_S, LOOK_S, QUEUE_S};
use crate::service::{GONE_S, SILENCE_S};

/// A host that can reach the switch is signed in within this time. The host notices within `HELLO_S` that it is not
/// signed in, and the service notices at the next reading, even a late one, that the former socket is silent.
const SIGN_IN_S: u64 = 45;
const READ_BACK_S: u64 = 60;

/// Everything that must happen in a simulated day.
pub const WHAT_HAPPENS: [&str; 52] = [
    "conferences made",
    "conferences ended",
    "joins",
    "joins over IPv6",
    "joins with a subscription",
    "joins with a track",
    "leaves",
    "removals",
    "tokens renewed",
    "tokens that ended",
    "participants that were gone",
    "tracks published",
    "tracks of datagrams",
    "tracks of several qualities",
    "tracks changed",
    "tracks ended",
    "subscriptions",
    "qualities changed",
    "subscriptions ended",
    "legs shared",
    "mutes by publishers",
    "mutes by administrators",
    "unmutes",
    "refused requests",
    "hosts that vanished",
    "hosts that came back",
    "hosts that moved",
    "sockets for another leg",
    "sockets that moved",
    "sockets that went to another leg",
    "sign-ins",
    "sign-outs for silence",
    "challenges",
    "welcomes",
    "floods",
    "forged packets",
    "replayed hellos",
    "hellos with a wrong key",
    "hellos of ended legs",
    "copies",
    "serve",
    "answer_hello",
    "to_controller",
    "drop_not_signed_in",
    "drop_policed",
    "drop_not_rtp",
    "drop_no_receiver",
    "restarts of the switch",
    "restarts of the service",
    "lost connections",
    "writes cut off",
    "late looks",
];

impl Day {
    /// Checks what must be true after each second.
    pub fn check(&mut self) {
        assert_eq!(
            self.service.store.len(),
            self.book.n_records(),
            "records in the store"
        );
        if !self.is_connected() || !matches!(self.at_switch, AtSwitch::Live) {
            return;
        }
        let now_s = self.now_s;
        let healthy_s = self.healthy_s;
        for leg in self.book.bound.keys() {
            let signs = [self.heard_s[leg], self.bound_s[leg], healthy_s];
            let silent_s = now_s - signs.into_iter().max().expect("three");
            let most_s = SILENCE_S + LOOK_S + LATE_S + QUEUE_S;
            assert!(
                silent_s <= most_s,
                "leg {leg} is signed in, silent for {silent_s} s"
            );
        }
        for (leg, socket) in self.sockets.iter().filter(|(_, it)| it.is_on) {
            let bound = self.book.bound.get(leg);
            if bound.is_none_or(|it| it.place != socket.place) {
                let heard_s = bound.map_or(0, |_| self.heard_s[leg]);
                let signs = [socket.since_s, healthy_s, heard_s];
                let waits_s = now_s - signs.into_iter().max().expect("three");
                assert!(
                    waits_s <= SIGN_IN_S,
                    "leg {leg} is not signed in after {waits_s} s"
                );
            }
        }
        for (who, participant) in self.book.participants() {
            let absent_s = now_s - self.absent_s[&who].max(healthy_s);
            assert!(
                absent_s <= GONE_S + 1,
                "{who:?} is there, without a sign for {absent_s} s"
            );
            let over_s = now_s.saturating_sub(participant.expires_s.max(healthy_s));
            assert!(
                over_s <= 1,
                "{who:?} is there {over_s} s after its token's end"
            );
        }
        if now_s.is_multiple_of(READ_BACK_S) {
            self.read_back();
        }
    }

    /// Checks that the switch has exactly the entries and groups that the book demands.
    pub fn read_back(&mut self) {
        let mut there = Rows::default();
        let entities = self.switch.read(self.switch.tables.wildcards());
        there.add_read(&self.switch.tables, &entities);
        assert_eq!(
            there,
            self.book.rows(),
            "what the switch has, and what it must have"
        );
        assert_eq!(
            self.switch.n_without_receiver(),
            0,
            "copies without a receiver"
        );
    }

    /// Checks that the model has as many records as the book demands, and nothing that its records do not have.
    pub fn check_hour(&mut self) {
        let model = &self.service.model;
        let records: Vec<_> = model.records().collect();
        assert_eq!(records.len(), self.book.n_records(), "records of the model");
        let (again, orphans) = Model::load(records);
        assert_eq!(orphans, []);
        let content = |model: &Model| {
            let text = format!("{model:#?}");
            let lines = text.lines().filter(|it| !it.contains("last_leg"));
            let mut lines: Vec<String> = lines.map(str::to_owned).collect();
            // The order of a hash map means nothing.
            lines.sort();
            lines
        };
        assert!(
            content(model) == content(&again),
            "the model has what its records do not have"
        );
        self.statistics.add("checks of the model");
    }
}
