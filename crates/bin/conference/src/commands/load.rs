//! `reprise load`: lets many participants join a conference, send, receive and measure.
//!
//! All participants are tasks of one thread. Each that sends or receives has a socket of its own (a leg), and signs
//! it in by itself. The requests of all participants share a few HTTP connections.

mod packet;
mod participant;
mod receiver;
mod tally;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use conference_api::{Claims, Grants, Name, TrackKind};
use conference_client::{Api, Bearer, PacketBuffer, now_ns};
use conference_service::tokens;
use serde_json::json;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{
    Instant, MissedTickBehavior, interval, interval_at, sleep, sleep_until, timeout,
};

use super::open_files;
use crate::args::{Global, Load};
use crate::failure::Failure;
use crate::files;
use crate::output;
use command_line::interrupt::unless_interrupted;
use packet::Pace;
use participant::{JOIN_MAX, Member, PORT_REST, Phase, Shared, State, take_part};
use tally::Tally;

/// How long the load waits for the last packets.
const LAST_PACKETS: Duration = Duration::from_secs(1);
/// How long after the load's planned end the participants' tokens expire. If a load is killed, its participants stay in
/// the conference until then at the latest.
const TOKEN_REST: Duration = Duration::from_secs(120);

pub async fn run(global: &Global, load: Load) -> Result<(), Failure> {
    let run = fastrand::u64(..);
    let plan = match (&load.secret, &load.tokens) {
        (Some(file), _) => Plan::of_secret(&load, file, run)?,
        (None, Some(file)) => Plan::of_tokens(&load, file)?,
        (None, None) => return Err(Failure::new("expected --secret FILE or --tokens FILE")),
    };
    let n_resting = plan.members.len() as u64 * u64::from(load.leave) / 100 * PORT_REST.as_secs();
    open_files::allow(plan.members.len() as u64 + n_resting)?;
    let driver = Driver::new(global.json, load, plan, run);
    LocalSet::new().run_until(driver.drive()).await
}

/// The conference of the load, and the participants.
struct Plan {
    conference: Name,
    members: Vec<Rc<Member>>,
}

impl Plan {
    /// Makes names of participants for this run, and tokens that are signed with the secret.
    fn of_secret(load: &Load, file: &Path, run: u64) -> Result<Plan, Failure> {
        let conference = load.conference.clone();
        let conference = conference.ok_or_else(|| Failure::new("expected --conference NAME"))?;
        check_publishers(load.publishers, load.participants as usize)?;
        let secret = files::bytes(file, "the service's secret")?;
        let secret = secret.trim_ascii();
        if secret.len() < tokens::SECRET_LEN_MIN {
            let error = tokens::BadKey::Short(secret.len());
            return Err(Failure::in_file(file, &error));
        }
        let joining = Duration::from_secs((load.participants / load.rate).into()) + JOIN_MAX;
        let whole = joining + Duration::from_secs(load.seconds.into()) + TOKEN_REST;
        let exp = now_ns() / 1_000_000_000 + whole.as_secs();
        let mut members = Vec::new();
        for n in 0..load.participants {
            let name = Name::new(format!("load-{:06x}-{n:04}", run & 0xff_ffff))?;
            let publishes = (n < load.publishers).then_some(TrackKind::Video);
            let claims = Claims {
                exp,
                nbf: None,
                iss: None,
                sub: Some(name.clone()),
                conference: Some(conference.clone()),
                grants: Grants {
                    publish: publishes.into_iter().collect(),
                    max_kbps: Pace::of(load.kbps).max_kbps(),
                    subscribe: true,
                    administer: false,
                },
            };
            let token = tokens::sign(&claims, secret)?;
            members.push(member(members.len(), name, token, publishes));
        }
        Ok(Plan {
            conference,
            members,
        })
    }

    /// Takes as participants those whose tokens are in a file.
    fn of_tokens(load: &Load, file: &Path) -> Result<Plan, Failure> {
        let text = files::text(file, "tokens, one a line")?;
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
        check_publishers(load.publishers, lines.len())?;
        let mut conference = None;
        let mut names = BTreeSet::new();
        let mut members = Vec::new();
        for (idx, line) in lines.into_iter().enumerate() {
            let in_line =
                |why: String| Failure::in_file(file, &format!("token {}: {why}", idx + 1));
            let bearer = Bearer::read(line).map_err(|error| in_line(error.to_string()))?;
            let of = conference.get_or_insert_with(|| bearer.conference.clone());
            if *of != bearer.conference {
                let other = &bearer.conference;
                return Err(in_line(format!("it is for conference {other}, not {of}")));
            }
            if !names.insert(bearer.participant.clone()) {
                let who = &bearer.participant;
                return Err(in_line(format!(
                    "participant {who} has an earlier one, too"
                )));
            }
            let granted = bearer.claims.grants.publish.first().copied();
            let publishes = if (idx as u64) < u64::from(load.publishers) {
                let why =
                    || in_line("it allows to publish nothing, and is a publisher's".to_owned());
                Some(granted.ok_or_else(why)?)
            } else {
                None
            };
            let name = bearer.participant;
            members.push(member(idx, name, line.to_owned(), publishes));
        }
        let conference =
            conference.ok_or_else(|| Failure::in_file(file, &"expected tokens, found none"))?;
        Ok(Plan {
            conference,
            members,
        })
    }
}

fn member(idx: usize, name: Name, token: String, publishes: Option<TrackKind>) -> Rc<Member> {
    Rc::new(Member {
        name,
        token,
        publishes: publishes.map(|kind| (idx, kind)),
        state: Cell::new(State::Joining),
        leave: Notify::new(),
        has_left: Cell::new(false),
    })
}

fn check_publishers(publishers: u32, n_participants: usize) -> Result<(), Failure> {
    if publishers as usize <= n_participants {
        return Ok(());
    }
    Err(Failure::new(format!(
        "--publishers {publishers}: expected at most as many as there are participants, {n_participants}"
    )))
}

/// Drives the load.
struct Driver {
    json: bool,
    load: Load,
    members: Vec<Rc<Member>>,
    shared: Rc<Shared>,
    phase: watch::Sender<Phase>,
    /// Set when the joining has ended: how many participants have joined, and how long the joining took.
    joined: Cell<Option<(u64, Duration)>>,
}

impl Driver {
    fn new(json: bool, load: Load, plan: Plan, run: u64) -> Driver {
        let (phase, phases) = watch::channel(Phase::Joining);
        let publishers: Vec<Name> = plan
            .members
            .iter()
            .filter(|it| it.publishes.is_some())
            .map(|it| it.name.clone())
            .collect();
        let name = |text: &'static str| Name::new(text).unwrap_or_else(|_| unreachable!());
        let n_subscriptions = load.subscribe.map_or(usize::MAX, |n| n as usize);
        let shared = Shared {
            api: Api::new(&load.url, ""),
            conference: plan.conference,
            track: name("load"),
            leg: name("media"),
            run,
            pace: Pace::of(load.kbps),
            sent: publishers.iter().map(|_| Cell::new(0)).collect(),
            publishers,
            n_subscriptions,
            phase: phases,
            tally: RefCell::new(Tally::default()),
            n_silent: Cell::new(0),
            changed: Notify::new(),
            buffer: RefCell::new(PacketBuffer::default()),
        };
        Driver {
            json,
            load,
            members: plan.members,
            shared: Rc::new(shared),
            phase,
            joined: Cell::new(None),
        }
    }

    async fn drive(self) -> Result<(), Failure> {
        let mut tasks = JoinSet::new();
        let reports = tokio::task::spawn_local(report(self.shared.clone(), self.json));
        unless_interrupted(self.run_load(&mut tasks)).await;
        let ending = async {
            self.phase.send_replace(Phase::Stopped);
            sleep(LAST_PACKETS).await;
            self.phase.send_replace(Phase::Leaving);
            while tasks.join_next().await.is_some() {}
        };
        unless_interrupted(ending).await;
        reports.abort();
        self.conclude()
    }

    /// Lets all participants join. Then, for the time that the user has given, lets some of them leave and join again.
    async fn run_load(&self, tasks: &mut JoinSet<()>) {
        let began = Instant::now();
        let n_publishers = self.shared.publishers.len();
        let (publishers, others) = self.members.split_at(n_publishers);
        self.join(publishers, tasks).await;
        self.phase.send_replace(Phase::Sending);
        self.join(others, tasks).await;
        let n_joins = self.shared.tally.borrow().n_joins;
        self.joined.set(Some((n_joins, began.elapsed())));
        let seconds = Duration::from_secs(self.load.seconds.into());
        // `replace` ends only by this time limit.
        let _ = timeout(seconds, self.replace(others)).await;
    }

    /// Starts the joins of these participants at the rate that the user has given. Waits until each participant has
    /// joined or failed.
    async fn join(&self, members: &[Rc<Member>], tasks: &mut JoinSet<()>) {
        let began = Instant::now();
        for (idx, member) in (0_u32..).zip(members) {
            let due = began + Duration::from_secs(1) * idx / self.load.rate;
            sleep_until(due).await;
            tasks.spawn_local(take_part(self.shared.clone(), member.clone(), due));
        }
        while members.iter().any(|it| it.state.get() == State::Joining) {
            self.shared.changed.notified().await;
        }
    }

    /// Lets participants leave and join again, for ever.
    async fn replace(&self, others: &[Rc<Member>]) {
        let per_s = others.len() as f64 * f64::from(self.load.leave) / 100.0;
        if per_s == 0.0 {
            return std::future::pending().await;
        }
        let period = Duration::from_secs_f64(1.0 / per_s);
        let mut ticks = interval_at(Instant::now() + period, period);
        loop {
            ticks.tick().await;
            let present: Vec<&Rc<Member>> = others
                .iter()
                .filter(|it| it.state.get() == State::Present)
                .collect();
            if let Some(one) = fastrand::choice(present) {
                one.leave.notify_one();
            }
        }
    }

    fn conclude(&self) -> Result<(), Failure> {
        let tally = self.shared.tally.borrow();
        let n_silent = self.shared.n_silent.get();
        let n_stay = self.members.iter().filter(|it| !it.has_left.get()).count();
        let joins_per_s = self
            .joined
            .get()
            .map(|(n, took)| n as f64 / took.as_secs_f64().max(0.001));
        let mut document = json!({
            "conference": self.shared.conference,
            "participants": self.members.len(),
            "publishers": self.shared.publishers.len(),
            "rate": self.load.rate,
            "joins_per_s": joins_per_s,
            "kbps": self.load.kbps,
            "packets_per_s": self.shared.pace.per_s,
            "sent": self.shared.sent.iter().map(Cell::get).sum::<u64>(),
            "silent": n_silent,
            "not_left": n_stay,
        });
        if let (Some(all), serde_json::Value::Object(counted)) =
            (document.as_object_mut(), tally.to_json())
        {
            all.extend(counted);
        }
        let failed = self.why_failed(&tally, n_silent);
        if !self.json {
            let mut rows = tally.rows();
            let shown = joins_per_s.map_or("-".to_owned(), |it| format!("{it:.1}"));
            rows.insert(1, vec!["joins a second".to_owned(), shown]);
            rows.push(vec![
                "participants who could not leave".to_owned(),
                n_stay.to_string(),
            ]);
            output::text("");
            output::table(&rows, 1);
        } else if failed.is_none() {
            output::json(&document);
        }
        failed.map_or(Ok(()), |why| Err(Failure::new(why).with(document)))
    }

    fn why_failed(&self, tally: &Tally, n_silent: usize) -> Option<String> {
        if tally.n_foreign > 0 {
            return Some(format!(
                "{} foreign packets: expected only packets of this load's publishers to whom a participant has \
                 subscribed; does another program send to the same sockets, or does a stream cross?",
                tally.n_foreign
            ));
        }
        if let Some(why) = &tally.first_failure {
            return Some(format!("{} could not join; {why}", tally.n_failed));
        }
        if n_silent > 0 {
            return Some(format!(
                "{n_silent} pairs of a publisher and a subscriber had no packet, though some were sent: \
                 look at `GET /v1/conferences/{}` for sockets that are not signed in",
                self.shared.conference
            ));
        }
        None
    }
}

/// Prints a line each second, for ever.
async fn report(shared: Rc<Shared>, is_json: bool) {
    if !is_json {
        output::text(
            "times are p50, p99, max of join to first packet; p50, p99, p99.9 of one-way delay",
        );
    }
    let mut ticks = interval(Duration::from_secs(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.tick().await;
    for number in 1.. {
        ticks.tick().await;
        let (json, text) = shared.tally.borrow_mut().second(number);
        if is_json {
            output::json(&json);
        } else {
            output::text(text);
        }
    }
}
