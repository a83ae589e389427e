//! One participant of a load: it joins as a host does, with a socket of its own, and publishes, or only receives.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, pending};
use std::rc::Rc;
use std::time::Duration;

use conference_api::{
    JOIN_SUBSCRIPTIONS_MAX, Leg, Name, ParticipantSpec, QualitySpec, SubscriptionSpec, TrackKind,
    TrackPath, TrackSpec, Transport,
};
use conference_client::{Api, ApiError, MediaSocket, PacketBuffer, now_ns};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, interval, sleep, timeout, timeout_at};

use super::packet::{Label, Pace};
use super::receiver::Receiver;
use super::tally::Tally;
use crate::failure::Failure;

/// How long a join may take, with all subscriptions.
pub const JOIN_MAX: Duration = Duration::from_secs(60);
/// How long leaving may take.
const LEAVE_MAX: Duration = Duration::from_secs(15);
/// The pause before a request is made again.
const AGAIN: Duration = Duration::from_millis(200);
/// Maximum number of packets that a participant takes in a row, before other participants can take theirs.
const BATCH: usize = 64;
/// How long a socket stays open after its participant has left, so that no other participant gets its port. Packets
/// that are on the way to the port have come by then, even on a busy machine.
pub const PORT_REST: Duration = Duration::from_secs(10);
/// A publisher counts as silent if it has sent for so many seconds and none of its packets has come.
const SILENT_S: u64 = 2;

/// The phase of the whole load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Phase {
    /// Participants join, and nobody sends yet.
    Joining,
    /// Publishers send.
    Sending,
    /// Nobody sends; the last packets come.
    Stopped,
    /// All leave.
    Leaving,
}

/// What all participants share; they run on one thread.
pub struct Shared {
    pub api: Api,
    pub conference: Name,
    pub track: Name,
    pub leg: Name,
    pub run: u64,
    pub pace: Pace,
    pub publishers: Vec<Name>,
    /// To how many publishers each participant subscribes.
    pub n_subscriptions: usize,
    pub phase: watch::Receiver<Phase>,
    pub tally: RefCell<Tally>,
    /// Packets that each publisher has sent.
    pub sent: Vec<Cell<u64>>,
    /// Number of pairs of a publisher and a participant who has received nothing from this publisher.
    pub n_silent: Cell<usize>,
    /// Notified when a participant's state has changed.
    pub changed: Notify,
    pub buffer: RefCell<PacketBuffer>,
}

/// The state of a participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Joining,
    /// The participant is in the conference with all its subscriptions, and is signed in.
    Present,
    /// The participant could not join.
    Failed,
}

/// A participant.
pub struct Member {
    pub name: Name,
    pub token: String,
    /// If the participant is a publisher, its index among the publishers and its track's kind.
    pub publishes: Option<(usize, TrackKind)>,
    pub state: Cell<State>,
    /// Notified when the participant is to leave and join again.
    pub leave: Notify,
    /// Whether the participant has left the conference at the end of the load.
    pub has_left: Cell<bool>,
}

/// Takes part until the load ends. `due` is the planned beginning of the join. The time of the join is measured from
/// `due`, so it includes delays by a busy machine.
pub async fn take_part(shared: Rc<Shared>, member: Rc<Member>, due: Instant) {
    let stay = Stay {
        api: shared.api.with_token(&member.token),
        shared: &shared,
        member: &member,
    };
    let mut due = due;
    while stay.take(due).await {
        shared.tally.borrow_mut().n_leaves += 1;
        due = Instant::now();
    }
}

struct Stay<'s> {
    api: Api,
    shared: &'s Shared,
    member: &'s Member,
}

impl Stay<'_> {
    /// Joins, stays and leaves. Returns whether the participant is to join again.
    async fn take(&self, due: Instant) -> bool {
        self.set(State::Joining);
        let stayed = self.stay(due).await;
        if self.member.state.get() == State::Present {
            self.set(State::Joining);
            self.shared.tally.borrow_mut().n_present -= 1;
        }
        self.leave().await;
        match stayed {
            Ok(again) => again,
            // At the end of the load the publishers leave, too, so a participant that is still joining finds no
            // publisher.
            Err(_) if self.is_over() => {
                self.shared.tally.borrow_mut().n_unfinished += 1;
                false
            }
            Err(failure) => {
                let why = format!("{}: {failure}", self.member.name);
                self.shared.tally.borrow_mut().failed(why);
                self.set(State::Failed);
                false
            }
        }
    }

    fn set(&self, state: State) {
        self.member.state.set(state);
        self.shared.changed.notify_one();
    }

    fn is_over(&self) -> bool {
        *self.shared.phase.borrow() == Phase::Leaving
    }

    /// Waits until a phase has come.
    async fn phase(&self, phase: Phase) {
        let mut phases = self.shared.phase.clone();
        // This error cannot occur: the channel's sender lives until all participants have ended.
        if phases.wait_for(|it| *it >= phase).await.is_err() {
            pending::<()>().await;
        }
    }

    /// Joins, and takes part until the participant is to leave. Returns whether the participant is to join again.
    async fn stay(&self, due: Instant) -> Result<bool, Failure> {
        let Shared { tally, sent, .. } = self.shared;
        let measured = self.member.publishes.is_none().then_some(due);
        let receiver = RefCell::new(Receiver::new(self.shared.run, tally, sent, measured));
        let others = self.chosen();
        let until = due + JOIN_MAX;
        let in_time =
            |what: &str| Failure::new(format!("expected {what} within {} s", JOIN_MAX.as_secs()));
        let entered = timeout_at(until, self.enter(&others, &receiver)).await;
        let leg = entered.map_err(|_| in_time("an answer of the service"))??;
        if self.is_over() {
            return Ok(false);
        }
        let socket = match leg {
            Some(leg) => Some(MediaSocket::open(&leg).await?),
            // The participant neither sends nor receives.
            None => None,
        };
        let is_signed_in = Notify::new();
        let settling = async {
            let settled = timeout_at(
                until,
                self.settle(&others, &receiver, &socket, &is_signed_in),
            );
            let settled = settled.await;
            settled.map_err(|_| in_time("to be signed in with all subscriptions"))??;
            receiver.borrow_mut().is_present();
            {
                let mut tally = tally.borrow_mut();
                tally.n_present += 1;
                tally.n_joins += 1;
            }
            self.set(State::Present);
            pending::<Result<Infallible, Failure>>().await
        };
        let again = tokio::select! {
            failed = settling => match failed? {},
            never = self.receive(&socket, &receiver, &is_signed_in) => match never {},
            never = self.send(&socket) => match never {},
            () = self.member.leave.notified() => true,
            () = self.phase(Phase::Leaving) => false,
        };
        if again {
            // The switch may still send some packets to this port, so another socket must not get the port so soon.
            tokio::task::spawn_local(async move {
                sleep(PORT_REST).await;
                drop(socket);
            });
        } else {
            let least = SILENT_S * u64::from(self.shared.pace.per_s);
            let n_silent = receiver.into_inner().end(least);
            self.shared
                .n_silent
                .set(self.shared.n_silent.get() + n_silent);
        }
        Ok(again)
    }

    /// Chooses at random the publishers to which the participant subscribes.
    fn chosen(&self) -> Vec<usize> {
        let own = self.member.publishes.map(|(place, _)| place);
        let n = self.shared.publishers.len();
        let mut others: Vec<usize> = (0..n).filter(|it| Some(*it) != own).collect();
        fastrand::shuffle(&mut others);
        others.truncate(self.shared.n_subscriptions);
        others
    }

    /// Joins with the track or, if the participant publishes nothing, with as many subscriptions as a join may have.
    /// Returns the leg, or `None` if the participant neither sends nor receives.
    async fn enter(
        &self,
        others: &[usize],
        receiver: &RefCell<Receiver<'_>>,
    ) -> Result<Option<Leg>, Failure> {
        let mut spec = ParticipantSpec::default();
        if let Some((_, kind)) = self.member.publishes {
            let track = self.track_of(kind);
            spec.tracks.insert(self.shared.track.clone(), track);
        } else {
            for publisher in others.iter().take(JOIN_SUBSCRIPTIONS_MAX) {
                receiver.borrow_mut().subscribes_to(*publisher);
                let publisher = self.shared.publishers[*publisher].clone();
                let track = (self.shared.track.clone(), self.subscription());
                spec.subscriptions.insert(publisher, [track].into());
            }
        }
        let has_leg = !spec.tracks.is_empty() || !spec.subscriptions.is_empty();
        let whose = (&self.shared.conference, &self.member.name);
        let is_awaited = |error: &ApiError| error.is_transient() && !self.is_over();
        let joined = self.repeated_if(is_awaited, || self.api.join(whose, spec.clone()));
        let legs = joined.await?.legs;
        if !has_leg {
            return Ok(None);
        }
        let leg = legs.and_then(|mut legs| legs.remove(&self.shared.leg));
        let lost = || Failure::new("the service gave no leg");
        Ok(Some(leg.ok_or_else(lost)?))
    }

    fn track_of(&self, kind: TrackKind) -> TrackSpec {
        let Shared { pace, leg, .. } = self.shared;
        TrackSpec {
            kind,
            transport: Transport::Rtp,
            qualities: vec![QualitySpec {
                name: leg.clone(),
                max_kbps: pace.max_kbps(),
                leg: Some(leg.clone()),
            }],
            sdp: String::new(),
        }
    }

    fn subscription(&self) -> SubscriptionSpec {
        SubscriptionSpec {
            quality: None,
            leg: Some(self.shared.leg.clone()),
        }
    }

    async fn subscribe(
        &self,
        publisher: usize,
        receiver: &RefCell<Receiver<'_>>,
    ) -> Result<(), Failure> {
        receiver.borrow_mut().subscribes_to(publisher);
        let whose = (&self.shared.conference, &self.member.name);
        let path = TrackPath {
            participant: self.shared.publishers[publisher].clone(),
            track: self.shared.track.clone(),
        };
        // Publishers join at the same time, so the track of another publisher may not be there yet.
        let is_awaited = |error: &ApiError| {
            let is_missing = matches!(error, ApiError::Refused(problem) if problem.status == 404);
            (is_missing || error.is_transient()) && !self.is_over()
        };
        let subscribing = self.repeated_if(is_awaited, || {
            self.api.subscribe(whose, &path, self.subscription())
        });
        subscribing.await.map(drop)
    }

    /// Makes the subscriptions that `enter` has not made, and waits until the socket is signed in.
    async fn settle(
        &self,
        others: &[usize],
        receiver: &RefCell<Receiver<'_>>,
        socket: &Option<MediaSocket>,
        is_signed_in: &Notify,
    ) -> Result<(), Failure> {
        let n_made = if self.member.publishes.is_some() {
            0
        } else {
            JOIN_SUBSCRIPTIONS_MAX
        };
        for publisher in others.iter().skip(n_made) {
            self.subscribe(*publisher, receiver).await?;
        }
        if socket.is_some() {
            is_signed_in.notified().await;
        }
        Ok(())
    }

    /// Receives for ever.
    async fn receive(
        &self,
        socket: &Option<MediaSocket>,
        receiver: &RefCell<Receiver<'_>>,
        is_signed_in: &Notify,
    ) -> Infallible {
        let Some(socket) = socket else {
            return pending().await;
        };
        let mut was_signed_in = false;
        loop {
            socket.ready().await;
            let mut receiver = receiver.borrow_mut();
            let mut buffer = self.shared.buffer.borrow_mut();
            for _ in 0..BATCH {
                let Some(arrival) = socket.take(&mut buffer) else {
                    break;
                };
                receiver.take(buffer.packet(&arrival), &arrival);
            }
            drop((receiver, buffer));
            if !was_signed_in && socket.is_signed_in() {
                was_signed_in = true;
                is_signed_in.notify_one();
            }
        }
    }

    /// If the participant is a publisher, sends packets in the phase `Sending`. Then waits for ever.
    async fn send(&self, socket: &Option<MediaSocket>) -> Infallible {
        let Shared { pace, run, .. } = *self.shared;
        let (Some(socket), Some((place, _))) = (socket, self.member.publishes) else {
            return pending().await;
        };
        self.phase(Phase::Sending).await;
        let period = Duration::from_secs(1) / pace.per_s;
        // Wait for a random part of the period, so that publishers send at different times.
        sleep(period.mul_f64(fastrand::f64())).await;
        let mut packet = vec![0; pace.len];
        let sent = &self.shared.sent[place];
        let mut ticks = interval(period);
        loop {
            ticks.tick().await;
            if *self.shared.phase.borrow() >= Phase::Stopped {
                return pending().await;
            }
            let label = Label {
                run,
                publisher: u32::try_from(place).unwrap_or(u32::MAX),
                number: sent.get(),
                sent_ns: now_ns(),
            };
            label.write(&mut packet);
            // `send` may report an error of an earlier packet. The system has then not sent this packet, so it is sent
            // again.
            if socket.send(&packet).await.is_ok() || socket.send(&packet).await.is_ok() {
                sent.set(label.number + 1);
            } else {
                self.shared.tally.borrow_mut().n_send_errors += 1;
            }
        }
    }

    async fn leave(&self) {
        let request = self.repeated_if(ApiError::is_transient, || {
            self.api.leave(&self.shared.conference, &self.member.name)
        });
        let left = timeout(LEAVE_MAX, request).await;
        self.member.has_left.set(matches!(left, Ok(Ok(()))));
    }

    /// Makes a request, and repeats it after an error for which `is_awaited` is true.
    async fn repeated_if<T, F: Future<Output = Result<T, ApiError>>>(
        &self,
        is_awaited: impl Fn(&ApiError) -> bool,
        request: impl Fn() -> F,
    ) -> Result<T, Failure> {
        loop {
            match request().await {
                Err(error) if is_awaited(&error) => {
                    self.shared.tally.borrow_mut().n_repeated += 1;
                    sleep(AGAIN).await;
                }
                done => return Ok(done?),
            }
        }
    }
}
