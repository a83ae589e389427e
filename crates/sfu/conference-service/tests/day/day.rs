//! The simulated day: what happens in each second, and faults. The book, which the test's oracle keeps, determines what
//! the service and the switch must have. A look is a reading of the switch's counters.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use conference_api::Name;
use conference_model::{BindingRecord, Request};
use conference_service::presence::Stream;
use fastrand::Rng;

use crate::actions::Action;
use crate::book::Book;
use crate::bucket::Bucket;
use crate::counts::Counts;
use crate::demands::WHAT_HAPPENS;
use crate::hosts::{Host, Places, Socket, own_addresses};
use crate::service::{CutOff, SILENCE_S, Service, Store};
use crate::switch::{Left, Switch};

/// The seconds between two looks. A real service reads the counters each second; the test does so less often, to save
/// time.
pub const LOOK_S: u64 = 5;
/// The most seconds from one look to the next if the next look is late.
pub const LATE_S: u64 = 10;
/// The seconds between two hellos of a host that is signed in. A real host sends a hello each second; the test does so
/// less often, to save time, but often enough that no socket is signed out for being silent.
const HELLO_S: u64 = 13;
/// The most seconds that a request to sign out a silent socket waits before the service handles it.
pub const QUEUE_S: u64 = 4;
const HOUR_S: u64 = 3_600;
const SEEN_HELLOS_MAX: usize = 32;

/// How long the simulated day is, how often faults come, and how often everything must happen.
pub struct Length {
    pub seconds: u64,
    pub fault_every_s: u64,
    /// Each thing that can happen must happen at least this many times.
    pub times_min: u64,
}

/// How often each thing has happened.
#[derive(Default)]
pub struct Statistics(BTreeMap<&'static str, u64>);

impl Statistics {
    pub fn add(&mut self, what: &'static str) {
        self.add_many(what, 1);
    }

    pub fn add_many(&mut self, what: &'static str, n: usize) {
        *self.0.entry(what).or_default() += n as u64;
    }
}

/// What the switch has.
pub enum AtSwitch {
    /// What the book says.
    Live,
    /// What the book said when the connection was lost.
    Old(Box<Book>),
    /// No program.
    Nothing,
    /// The results of some, not all, of the writes that lead from the first of these books to the second.
    Between(Box<[Book; 2]>),
}

#[derive(Clone, Copy)]
enum Fault {
    SwitchRestarts,
    ServiceRestarts,
    ConnectionLost,
    CutOff,
    LateLook,
}

const FAULTS: [Fault; 5] = [
    Fault::SwitchRestarts,
    Fault::ServiceRestarts,
    Fault::ConnectionLost,
    Fault::CutOff,
    Fault::LateLook,
];

pub struct Day {
    pub rng: Rng,
    pub now_s: u64,
    pub length: Length,
    pub statistics: Statistics,
    pub book: Book,
    pub at_switch: AtSwitch,
    pub switch: Switch,
    pub service: Service,
    pub places: Places,
    pub hosts: BTreeMap<(Name, Name), Host>,
    /// Sockets by leg.
    pub sockets: BTreeMap<u16, Socket>,
    /// Sockets of legs that have ended. The hosts of these sockets do not know yet that the legs have ended.
    pub zombies: Vec<(u64, u16, Socket)>,
    pub streams: BTreeMap<(Name, Name), Stream>,
    pub buckets: BTreeMap<u16, Bucket>,
    pub counts: Counts,
    /// When a packet last hit a leg's entry.
    pub heard_s: BTreeMap<u16, u64>,
    pub seen_hellos: VecDeque<(BindingRecord, [u8; hello::LEN])>,
    /// Who has made a request in this second.
    pub asked: BTreeSet<(Name, Name)>,
    /// Hosts that come back, and when.
    pub returns: Vec<(u64, (Name, Name))>,
    pub deck: Vec<Action>,
    pub n_names: u64,
    pub bound_s: BTreeMap<u16, u64>,
    /// Since when a participant has given no sign of life.
    pub absent_s: BTreeMap<(Name, Name), u64>,
    /// Legs that were signed out since the last write.
    pub signed_out: BTreeSet<u16>,
    /// The requests that sign sockets out but that are still to be made, each with the time at which it is due.
    pub silent: Vec<(u64, Request)>,
    /// For each leg whose socket was found silent, the addresses that this socket had.
    pub found_silent: BTreeMap<u16, BindingRecord>,
    faults: Vec<Fault>,
    /// The second since which the service is connected to the switch.
    pub healthy_s: u64,
    pub next_look_s: u64,
    /// The time of the last look, and for each leg the time at which a packet had last hit the leg's entry before that
    /// look.
    pub last_look: (u64, BTreeMap<u16, u64>),
    pub service_is_down: bool,
    /// When the service begins again or connects again.
    pub back_s: Option<u64>,
    /// The book at the last write, if the next write is to be cut off.
    pub before_cut: Option<Box<Book>>,
}

impl Day {
    pub fn begin(seed: u64, length: Length) -> Day {
        let mut rng = Rng::with_seed(seed);
        let service = Service::begin(Store::default(), own_addresses(), 0, &mut rng);
        let mut day = Day {
            now_s: 0,
            length,
            statistics: Statistics::default(),
            book: Book::new(own_addresses()),
            at_switch: AtSwitch::Nothing,
            switch: Switch::start(),
            service,
            places: Places::new(),
            hosts: BTreeMap::new(),
            sockets: BTreeMap::new(),
            zombies: Vec::new(),
            streams: BTreeMap::new(),
            buckets: BTreeMap::new(),
            counts: Counts::default(),
            heard_s: BTreeMap::new(),
            seen_hellos: VecDeque::new(),
            asked: BTreeSet::new(),
            returns: Vec::new(),
            deck: Vec::new(),
            n_names: 0,
            bound_s: BTreeMap::new(),
            absent_s: BTreeMap::new(),
            signed_out: BTreeSet::new(),
            silent: Vec::new(),
            found_silent: BTreeMap::new(),
            faults: Vec::new(),
            healthy_s: 0,
            next_look_s: 0,
            last_look: (0, BTreeMap::new()),
            service_is_down: false,
            back_s: None,
            before_cut: None,
            rng,
        };
        day.connect();
        day
    }

    /// Lets the day pass, and reports what happened in it.
    pub fn pass(mut self) {
        while self.now_s < self.length.seconds {
            self.second();
            if self.now_s.is_multiple_of(HOUR_S) {
                self.check_hour();
            }
        }
        self.check_hour();
        println!("{} s: {:#?}", self.now_s, self.statistics.0);
        for what in WHAT_HAPPENS {
            let n = self.statistics.0.get(what).copied().unwrap_or(0);
            let least = self.length.times_min;
            assert!(
                n >= least,
                "expected \"{what}\" at least {least} times, found {n} times"
            );
        }
    }

    pub fn is_connected(&self) -> bool {
        self.service.is_connected && !self.service_is_down
    }

    pub fn is_service_up(&self) -> bool {
        !self.service_is_down
    }

    fn second(&mut self) {
        self.now_s += 1;
        self.switch.advance_1_s();
        self.come_back();
        self.say_hellos();
        if self.is_service_up() {
            self.return_hosts();
            if self.rng.u8(..10) < 7 {
                self.act();
            }
            self.flush();
            self.sign_out_silent();
            self.keep_house();
        }
        self.flush();
        self.send_media();
        if self.rng.u8(..3) == 0 {
            self.attack();
        }
        if self.is_connected() && self.now_s >= self.next_look_s {
            self.look();
        }
        self.flush();
        self.check();
        if self.rng.u64(..self.length.fault_every_s) == 0 {
            self.fail();
        }
    }

    fn come_back(&mut self) {
        if self.back_s.is_none_or(|it| it > self.now_s) {
            return;
        }
        self.back_s = None;
        if self.service_is_down {
            let store = std::mem::take(&mut self.service.store);
            let own = own_addresses();
            self.service = Service::begin(store, own, self.now_s, &mut self.rng);
            self.service_is_down = false;
            self.silent.clear();
            for ((conference, participant), stream) in &mut self.streams {
                *stream = self.service.presence.stream(conference, Some(participant));
            }
            let now_s = self.now_s;
            self.absent_s.values_mut().for_each(|it| *it = now_s);
        }
        self.connect();
    }

    /// Connects the service, which brings the switch to the state that the book has.
    fn connect(&mut self) {
        let was = std::mem::replace(&mut self.at_switch, AtSwitch::Live);
        self.service.connect(&mut self.switch, self.now_s);
        let bound: Vec<u16> = self.book.bound.keys().copied().collect();
        if matches!(was, AtSwitch::Nothing) {
            self.counts = Counts::default();
            self.buckets.clear();
        }
        self.counts.keep(&self.book);
        self.buckets
            .retain(|leg, _| self.book.bound.contains_key(leg));
        for leg in bound {
            let (_, kbps) = self.book.bounds_of(leg);
            let bucket = self.buckets.entry(leg);
            let bucket = bucket.or_insert_with(|| Bucket::new(kbps, self.now_s));
            bucket.loosen(kbps, self.now_s);
            if matches!(was, AtSwitch::Between(_)) {
                bucket.forget();
            }
        }
        if matches!(was, AtSwitch::Between(_)) {
            self.counts.forget_all();
        }
        self.signed_out.clear();
        self.healthy_s = self.now_s;
        self.next_look_s = self.now_s + 1;
        self.read_back();
    }

    /// Writes to the switch what has changed. Returns the welcomes: the answers to the hellos with which sockets have
    /// signed in.
    pub fn flush(&mut self) -> Vec<Left> {
        if !self.is_connected() || !self.service.has_changes() {
            return Vec::new();
        }
        let mut rng = self.rng.fork();
        let cut_off = self.before_cut.is_some().then_some(&mut rng);
        match self.service.rewrite(&mut self.switch, cut_off) {
            Ok((touched, welcomes)) => {
                for leg in touched {
                    let (_, kbps) = self.book.bounds_of(leg);
                    if let Some(bucket) = self.buckets.get_mut(&leg) {
                        bucket.loosen(kbps, self.now_s);
                    }
                }
                self.signed_out.clear();
                if let Some(before) = &mut self.before_cut {
                    **before = self.book.clone();
                }
                welcomes
            }
            Err(CutOff) => {
                self.statistics.add("writes cut off");
                let before = self.before_cut.take().expect("it was to be cut off");
                self.at_switch = AtSwitch::Between(Box::new([*before, self.book.clone()]));
                self.back_s = Some(self.now_s + self.rng.u64(1..4));
                if self.rng.bool() {
                    self.back_s = None;
                    self.connect();
                }
                Vec::new()
            }
        }
    }

    fn say_hellos(&mut self) {
        let due = self.sockets.iter().filter(|(leg, it)| {
            let is_its_second = (self.now_s + u64::from(**leg)).is_multiple_of(HELLO_S);
            it.is_on && (!it.signing.is_signed_in() || !it.is_answered || is_its_second)
        });
        let due: Vec<u16> = due.map(|(leg, _)| *leg).collect();
        for leg in due {
            self.say_hello(leg);
        }
        let now_s = self.now_s;
        self.zombies.retain(|(until_s, ..)| *until_s > now_s);
        self.say_hellos_of_zombies();
    }

    /// Whether the switch has entries of a leg.
    pub fn is_at_switch(&self, leg: u16) -> bool {
        match &self.at_switch {
            AtSwitch::Live => self.book.bound.contains_key(&leg),
            AtSwitch::Old(book) => book.bound.contains_key(&leg),
            AtSwitch::Nothing | AtSwitch::Between(_) => true,
        }
    }

    pub fn remember_hello(&mut self, from: BindingRecord, bytes: [u8; hello::LEN]) {
        if self.seen_hellos.len() == SEEN_HELLOS_MAX {
            self.seen_hellos.pop_front();
        }
        self.seen_hellos.push_back((from, bytes));
    }

    fn keep_house(&mut self) {
        let is_connected = self.is_connected();
        for (who, participant) in self.book.participants() {
            let mut legs = participant.legs.values();
            let is_there = !is_connected
                || self.streams.contains_key(&who)
                || self.asked.contains(&who)
                || legs.any(|it| self.book.bound.contains_key(it));
            if is_there {
                self.absent_s.insert(who, self.now_s);
            }
        }
        self.asked.clear();
        self.service.keep_house(self.now_s);
        self.hear_events();
    }

    fn look(&mut self) {
        let reading = self.service.look(&mut self.switch, self.now_s);
        self.counts.compare(&reading, &self.book);
        self.next_look_s = self.now_s + LOOK_S;
        self.last_look = (self.now_s, self.heard_s.clone());
        for request in self.service.silent() {
            let Request::SignOut { leg, .. } = request else {
                panic!("expected a sign-out, found {request:?}");
            };
            let silent_s = self.now_s - self.heard_s[&leg];
            assert!(
                silent_s >= SILENCE_S,
                "leg {leg} is found silent after {silent_s} s"
            );
            self.found_silent.insert(leg, self.book.bound[&leg].place);
            // Some sign-outs wait, and other sockets sign in meanwhile.
            let due_s = self.now_s + self.rng.u64(..QUEUE_S);
            self.silent.push((due_s, request));
        }
        self.sign_out_silent();
    }

    fn sign_out_silent(&mut self) {
        let now_s = self.now_s;
        let due = self.silent.extract_if(.., |(due_s, _)| *due_s <= now_s);
        for (_, request) in due {
            self.service.ask(&request, self.now_s).expect("a sign-out");
        }
        self.hear_events();
        self.flush();
    }

    fn fail(&mut self) {
        if !self.is_connected() || self.before_cut.is_some() {
            return;
        }
        if self.faults.is_empty() {
            self.faults = FAULTS.to_vec();
            self.rng.shuffle(&mut self.faults);
        }
        let back_s = self.now_s + self.rng.u64(1..5);
        match self.faults.pop() {
            Some(Fault::SwitchRestarts) => {
                self.statistics.add("restarts of the switch");
                self.switch.restart();
                self.service.disconnect();
                self.at_switch = AtSwitch::Nothing;
                self.back_s = Some(back_s);
            }
            Some(Fault::ServiceRestarts) => {
                self.statistics.add("restarts of the service");
                self.service_is_down = true;
                self.back_s = Some(back_s);
            }
            Some(Fault::ConnectionLost) => {
                self.statistics.add("lost connections");
                self.service.disconnect();
                self.at_switch = AtSwitch::Old(Box::new(self.book.clone()));
                self.back_s = Some(back_s + 3);
            }
            Some(Fault::CutOff) => self.before_cut = Some(Box::new(self.book.clone())),
            Some(Fault::LateLook) => {
                self.statistics.add("late looks");
                self.next_look_s = self.now_s + self.rng.u64(LOOK_S + 1..=LATE_S);
            }
            None => {}
        }
    }
}
