//! The service without sockets, clocks and disks. It does what the service's modules `core`, `driver` and
//! `housekeeping` do, in the same order, with the service's own code for the model, the switch's entries, sign-in and
//! activity. A map of texts serves as the store. A leg is a participant's connection by one UDP socket.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use conference_api::{EventKind, Name};
use conference_model::{Key, LegEntries, Model, Outside, Record, Refusal, Request};
use conference_service::HelloFrame;
use conference_service::absence::Absence;
use conference_service::activity::{self, Activity, Reading};
use conference_service::housekeeping::ended;
use conference_service::presence::Presence;
use conference_service::rows::{OwnAddress, Rows};
use conference_service::sign_in::{Clocks, Outcome, decide};
use fastrand::Rng;
use hello::Nonces;
use p4runtime_proto::reprise::v1::GetCountersResponse;
use tokio::time::Instant;

use crate::switch::{Left, Switch};

/// After how many seconds a silent socket is signed out, as in the default configuration.
pub const SILENCE_S: u64 = 30;
/// After how many seconds a participant that gives no sign of life is removed, as in the default configuration.
pub const GONE_S: u64 = 60;
/// The wall clock when the day begins, in milliseconds since 1970.
pub const DAWN_MS: u64 = 1_795_824_000_000;

/// Records by key, as a store has them.
pub type Store = BTreeMap<String, String>;

pub struct Service {
    pub model: Model,
    pub store: Store,
    pub presence: Presence,
    /// Events that nobody has read yet.
    pub events: Vec<(Name, EventKind)>,
    pub is_connected: bool,
    own_addresses: Vec<OwnAddress>,
    nonces: Nonces,
    began_s: u64,
    dawn: Instant,
    written: BTreeMap<u16, LegEntries>,
    touched: BTreeSet<u16>,
    welcomes: BTreeMap<u16, Left>,
    activity: Activity,
    absence: Absence,
    keys: Rng,
}

/// The connection to the switch ended while a batch was written.
#[derive(Debug)]
pub struct CutOff;

impl Service {
    /// Begins a process of the service with the records that the store has.
    pub fn begin(
        store: Store,
        own_addresses: Vec<OwnAddress>,
        now_s: u64,
        rng: &mut Rng,
    ) -> Service {
        let records = store.iter().map(|(key, value)| {
            let key: Key = key.parse().expect("a key");
            let record = Record::from_json(&key, value).expect("a record");
            (key, record)
        });
        let (model, orphans) = Model::load(records);
        assert_eq!(orphans, [], "expected no record that belongs to nothing");
        let mut keys = rng.fork();
        Service {
            touched: model.legs().collect(),
            model,
            store,
            presence: Presence::default(),
            events: Vec::new(),
            is_connected: false,
            own_addresses,
            nonces: Nonces::new(std::array::from_fn(|_| keys.u8(..))),
            began_s: now_s,
            dawn: Instant::now(),
            written: BTreeMap::new(),
            welcomes: BTreeMap::new(),
            activity: Activity::default(),
            absence: Absence::new(Duration::from_secs(GONE_S)),
            keys,
        }
    }

    fn clocks(&self, now_s: u64) -> Clocks {
        Clocks {
            steady_ms: (now_s - self.began_s) * 1_000,
            wall_ms: DAWN_MS + now_s * 1_000,
        }
    }

    fn instant(&self, now_s: u64) -> Instant {
        self.dawn + Duration::from_secs(now_s)
    }

    /// Makes a change in the model, then in the store, and then adds the change's events to the service's events.
    pub fn ask(&mut self, request: &Request, now_s: u64) -> Result<(), Refusal> {
        let keys = &mut self.keys;
        let mut new_key = || std::array::from_fn(|_| keys.u8(..));
        let mut outside = Outside {
            now_ms: DAWN_MS + now_s * 1_000,
            new_key: &mut new_key,
        };
        let change = self.model.plan(request, &mut outside)?;
        let touched = self.model.apply(&change);
        for (key, record) in &change.writes {
            match record {
                Some(record) => self.store.insert(key.to_string(), record.to_json()),
                None => self.store.remove(&key.to_string()),
            };
        }
        self.touched.extend(touched);
        self.events.extend(change.events);
        Ok(())
    }

    /// Records that a request has come with a participant's token.
    pub fn seen(&self, conference: &Name, participant: &Name, now_s: u64) {
        self.presence
            .request(conference, participant, self.instant(now_s));
    }

    /// Connects to a switch, and writes the updates after which it has exactly the entries that the conferences need.
    /// Sets no limits for hellos: that would take thousands of writes, and no host in this test sends so many hellos
    /// that a limit would matter.
    pub fn connect(&mut self, switch: &mut Switch, now_s: u64) {
        if switch.set_program() {
            self.activity = self.activity.counting_anew();
        }
        // Frames for the controller that came while nobody was connected are lost.
        switch.packet_ins();
        let mut there = Rows::default();
        there.add_read(&switch.tables, &switch.read(switch.tables.wildcards()));
        let mut desired = Rows::default();
        for own in &self.own_addresses {
            desired.add_own_address(own);
        }
        self.written.clear();
        self.welcomes.clear();
        for leg in self.model.legs() {
            let entries = self.model.entries(leg);
            desired.add_leg(leg, &entries);
            self.written.insert(leg, entries);
        }
        switch.write(&there.updates(&desired, &switch.tables));
        self.activity = self.activity.connected(self.clocks(now_s));
        self.is_connected = true;
    }

    /// Ends the connection to the switch.
    pub fn disconnect(&mut self) {
        self.is_connected = false;
        self.activity = self.activity.away();
    }

    /// Whether legs may need other entries than the switch has.
    pub fn has_changes(&self) -> bool {
        !self.touched.is_empty()
    }

    /// Writes the entries that the legs in `touched` need now. Returns these legs, and the welcomes (answers to hellos)
    /// that may be sent now. With `cut_off` only some of the writes are done, and the connection is lost.
    pub fn rewrite(
        &mut self,
        switch: &mut Switch,
        cut_off: Option<&mut Rng>,
    ) -> Result<(BTreeSet<u16>, Vec<Left>), CutOff> {
        let touched = std::mem::take(&mut self.touched);
        let (mut there, mut desired) = (Rows::default(), Rows::default());
        for leg in &touched {
            let entries = self.model.entries(*leg);
            there.add_leg(*leg, &self.written.remove(leg).unwrap_or_default());
            desired.add_leg(*leg, &entries);
            if entries != LegEntries::default() {
                self.written.insert(*leg, entries);
            }
        }
        let updates = there.updates(&desired, &switch.tables);
        if let Some(rng) = cut_off
            && updates.len() > 1
        {
            switch.write(&updates[..rng.usize(1..updates.len())]);
            self.disconnect();
            return Err(CutOff);
        }
        switch.write(&updates);
        let written = &self.written;
        let (go, wait) = std::mem::take(&mut self.welcomes)
            .into_iter()
            .partition(|(leg, _)| touched.contains(leg) && written.contains_key(leg));
        self.welcomes = wait;
        let go: BTreeMap<u16, Left> = go;
        Ok((touched, go.into_values().collect()))
    }

    /// Handles a frame for the controller. Returns an answer to send at once; a welcome of a new socket waits for
    /// [`Service::rewrite`].
    pub fn packet_in(&mut self, port: u16, frame: &[u8], now_s: u64) -> Option<Left> {
        let frame = HelloFrame::parse(port, frame).expect("a datagram");
        let clocks = self.clocks(now_s);
        let activity = &self.activity;
        let still_sends = |leg, there: &_| activity.still_sends(leg, there);
        let (from, payload) = (&frame.from, &frame.payload);
        let outcome = decide(
            &self.model,
            &self.nonces,
            clocks,
            from,
            payload,
            still_sends,
        );
        let sign = |leg: u16, answer: hello::Hello| {
            let bytes = answer.sign(&self.model.leg_record(leg).expect("a leg").key);
            (port, frame.answer(&bytes))
        };
        match outcome {
            Outcome::Ignored(_) => None,
            Outcome::Answered(answer) => {
                Some(sign(u16::try_from(answer.leg).expect("a leg"), answer))
            }
            Outcome::SignsIn { leg, welcome } => {
                self.welcomes.insert(leg, sign(leg, welcome));
                let binding = frame.from;
                let request = Request::SignIn { leg, binding };
                self.ask(&request, now_s).expect("there is the leg");
                None
            }
        }
    }

    /// Reads the counters.
    pub fn look(&mut self, switch: &mut Switch, now_s: u64) -> Reading {
        let (sockets, receivers) = (switch.tables.sockets(), switch.tables.receivers());
        let wildcards = activity::wildcards(sockets, receivers, &switch.verdicts);
        let entities = switch.read(wildcards);
        let (sockets, receivers) = (switch.tables.sockets(), switch.tables.receivers());
        let reading = Reading::new(
            (sockets, receivers, &switch.verdicts),
            &entities,
            &GetCountersResponse::default(),
        );
        self.activity = self.activity.next(&reading, self.clocks(now_s));
        reading
    }

    /// Returns requests that sign out the sockets that were silent at the last reading of the counters.
    pub fn silent(&self) -> Vec<Request> {
        self.activity.silent(&self.model, SILENCE_S * 1_000)
    }

    /// Removes participants whose tokens have ended, or that are gone.
    pub fn keep_house(&mut self, now_s: u64) {
        let mut requests = ended(&self.model, DAWN_MS + now_s * 1_000);
        let now = self.instant(now_s);
        let (model, presence) = (&self.model, &self.presence);
        requests.extend(self.absence.look(model, presence, self.is_connected, now));
        for request in requests {
            self.ask(&request, now_s).expect("a removal");
        }
    }
}
