//! Makes the changes that requests ask for: one after the other in memory, and many at once in the store. Then notifies
//! the connection to the switch and the readers of events. A change has these steps:
//!
//! | step | if the service is killed after this step |
//! | --- | --- |
//! | 1. The writer puts the change into its own model. | the change is lost |
//! | 2. The store writes the change to the disk. | the next service begins with the change |
//! | 3. The writer puts the change into the shared model, which all other tasks read. | as after step 2 |
//! | 4. The writer notifies the connection to the switch and the readers of events. | as after step 2 |
//! | 5. The connection writes the change to the switch. | nothing is missing |
//!
//! [`Core::carry_out`] returns after step 5, or after step 4 if no switch is connected or the switch is slow. A service
//! that begins brings all that the store has to the switch. Other tasks can read the shared model while the store
//! writes.
//!
//! If the store fails in step 2, nobody knows whether it has the change. Then the writer reads both models from the
//! store again before it changes anything else.
//!
//! Of the services that share a store, one leads, and only the leading service makes changes. When another service
//! leads, [`Core::ended`] returns, and this service changes nothing any more.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use conference_api::{Event, EventKind, Name};
use conference_model::{Change, Key, Model, Outside, Record, Refusal, Request};
use conference_store::{Store, StoreError, Write};
use tokio::sync::{Notify, RwLock, RwLockReadGuard, broadcast, mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::metrics::Metrics;

/// How many requests the store gets at once, at most.
const BATCH_MAX: usize = 256;
/// After this many events the writer first stores its changes and sends the events to the readers, and only then takes
/// further requests. Readers take events while the store writes, so a batch does not overflow their queues.
const EVENTS_PER_WRITE: usize = 1_024;
/// How many requests may wait. Further requests are refused, so that the waiting requests are answered in time.
const QUEUE_MAX: usize = 4_096;
/// How many events a reader of events may be behind.
const EVENTS_MAX: usize = 4_096;
/// How long the answer to a request waits until the connected switch has the change. A slower switch gets the change
/// after the answer.
const SWITCH: Duration = Duration::from_secs(1);
/// The pause before the store is read again after it failed.
const RETRY: Duration = Duration::from_millis(200);

/// Why a request was not done, or may not have been done.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CoreError {
    /// The request asks for something that is not possible.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// More requests wait than the service can answer in time.
    #[error("the service has more requests than it can answer in time: try again in a second")]
    Busy,
    /// The request changes more than the store can write at once.
    #[error("{0}")]
    TooLarge(String),
    /// The store failed. Whether the request was done is not known.
    #[error("{0}: whether the request was done is not known; make it again")]
    Store(String),
    /// The service ends, or another service leads.
    #[error("the service ends, or another one leads: ask the one that leads")]
    Ended,
}

/// The number of a change, from 1 on; 0 if nothing changed that the switch must know.
type ChangeNumber = u64;

/// The state of the connection to the switch, and the changes that the switch has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct AtSwitch {
    connection: Connection,
    /// The switch has this change and all changes before it.
    change: ChangeNumber,
    /// The last change whose request was answered, perhaps before the switch had it.
    answered: ChangeNumber,
}

/// The connection to the switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Connection {
    /// The connection is being made, for example by a service that has just begun to lead. The switch may be running
    /// and forward as before, so requests wait for it.
    #[default]
    Begins,
    There,
    Away,
}

impl AtSwitch {
    /// Whether the switch is connected, and has everything that the conferences need, except for changes whose requests
    /// still wait.
    fn is_whole(&self) -> bool {
        self.connection == Connection::There && self.change >= self.answered
    }

    /// Whether the request of a change is to be answered now: because the switch has the change, or because nobody
    /// knows when the switch will have it.
    fn ends_wait(&self, change: ChangeNumber) -> bool {
        self.change >= change || (self.connection != Connection::Begins && !self.is_whole())
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BeginError {
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store has a record that this version cannot read.
    #[error(transparent)]
    Record(#[from] conference_model::BadRecord),
}

/// The access to the conferences. All clones share the same conferences.
#[derive(Clone, Debug)]
pub struct Core {
    shared: Arc<Shared>,
    store: Store,
    requests: mpsc::Sender<Job>,
}

#[derive(Debug)]
struct Shared {
    /// The conferences as the store has them. No task awaits anything while it holds this lock.
    model: RwLock<Model>,
    events: broadcast::Sender<Arc<Event>>,
    /// The number of the last event.
    last_event: Mutex<u64>,
    touched: Mutex<Touched>,
    is_touched: Notify,
    at_switch: watch::Sender<AtSwitch>,
}

/// Legs that may need other entries in the switch. A leg is a participant's connection by one UDP socket.
#[derive(Debug, Default)]
struct Touched {
    legs: BTreeSet<u16>,
    /// The last change that touched any leg.
    change: ChangeNumber,
}

#[derive(Debug)]
struct Job {
    request: Request,
    answer: oneshot::Sender<Result<ChangeNumber, CoreError>>,
}

impl Core {
    /// Reads the store, and begins to serve requests.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn begin(store: impl Into<Store>) -> Result<Core, BeginError> {
        Core::begin_counted(store, Arc::default()).await
    }

    /// Does the same as [`Core::begin`], and also counts the store's writes.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn begin_counted(
        store: impl Into<Store>,
        metrics: Arc<Metrics>,
    ) -> Result<Core, BeginError> {
        let store = store.into();
        let model = read(&store).await?;
        let touched = Touched {
            legs: model.legs().collect(),
            change: 0,
        };
        let shared = Arc::new(Shared {
            touched: Mutex::new(touched),
            at_switch: watch::Sender::new(AtSwitch::default()),
            model: RwLock::new(model.clone()),
            events: broadcast::Sender::new(EVENTS_MAX),
            last_event: Mutex::new(0),
            is_touched: Notify::new(),
        });
        let (requests, queue) = mpsc::channel(QUEUE_MAX);
        let writer = Writer {
            shared: Arc::clone(&shared),
            model,
            store: store.clone(),
            queue,
            metrics,
            is_failing: false,
        };
        tokio::spawn(writer.run());
        Ok(Core {
            shared,
            store,
            requests,
        })
    }

    /// Makes a change, if the request needs one. When this returns, the change is in the store. It is in the switch,
    /// too, if the switch is connected and writes it within a second.
    ///
    /// # Errors
    /// The request is refused, or the store failed.
    pub async fn carry_out(&self, request: Request) -> Result<(), CoreError> {
        let change = self.make(request).await?;
        let mut at_switch = self.shared.at_switch.subscribe();
        let has_it = at_switch.wait_for(|it| it.ends_wait(change));
        // A late change is on its way to the switch; until the switch has it, `is_switch_whole` is false.
        let _ = tokio::time::timeout(SWITCH, has_it).await;
        let at_switch = &self.shared.at_switch;
        at_switch.send_modify(|it| it.answered = it.answered.max(change));
        Ok(())
    }

    /// Makes a change, if the request needs one. When this returns, the change is in the store.
    ///
    /// # Errors
    /// The request is refused, or the store failed.
    pub async fn ask(&self, request: Request) -> Result<(), CoreError> {
        self.make(request).await.map(|_| ())
    }

    async fn make(&self, request: Request) -> Result<ChangeNumber, CoreError> {
        request.check()?;
        let (answer, answered) = oneshot::channel();
        let job = Job { request, answer };
        self.requests.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => CoreError::Busy,
            mpsc::error::TrySendError::Closed(_) => CoreError::Ended,
        })?;
        answered.await.unwrap_or(Err(CoreError::Ended))
    }

    /// Waits until this service serves no request any more because another service leads.
    pub async fn ended(&self) {
        self.requests.closed().await;
    }

    /// Returns all conferences, as the store has them.
    pub async fn model(&self) -> RwLockReadGuard<'_, Model> {
        self.shared.model.read().await
    }

    /// Returns a receiver of all events from now on.
    #[must_use]
    pub fn events(&self) -> broadcast::Receiver<Arc<Event>> {
        self.shared.events.subscribe()
    }

    /// Sends the readers of events an event that is not part of a [`Change`].
    pub fn tell(&self, conference: Name, kind: EventKind) {
        self.shared.tell(conference, kind, now_ms());
    }

    /// Waits until legs may need other entries in the switch than before. Returns each such leg once, and the number of
    /// the last change, which [`switch_has`](Self::switch_has) takes.
    pub async fn touched(&self) -> (BTreeSet<u16>, u64) {
        loop {
            let notified = self.shared.is_touched.notified();
            {
                let mut touched = self.shared.lock_touched();
                if !touched.legs.is_empty() {
                    return (std::mem::take(&mut touched.legs), touched.change);
                }
            }
            notified.await;
        }
    }

    /// Returns the number of the last change that touched legs. Whatever is read from the model from now on includes
    /// this change.
    #[must_use]
    pub fn last_change(&self) -> u64 {
        self.shared.lock_touched().change
    }

    /// Records that the switch has what the conferences needed after a change.
    pub fn switch_has(&self, change: u64) {
        self.shared.at_switch.send_modify(|it| {
            it.connection = Connection::There;
            it.change = change;
        });
    }

    /// Records that no switch is connected, or that the switch does not have what the conferences need.
    pub fn switch_is_away(&self) {
        self.set_connection(Connection::Away);
    }

    /// Records that the service replaces its connection to the switch, although the switch is probably still there.
    pub fn switch_connection_begins(&self) {
        self.set_connection(Connection::Begins);
    }

    fn set_connection(&self, connection: Connection) {
        let at_switch = &self.shared.at_switch;
        at_switch.send_modify(|it| it.connection = connection);
    }

    /// Whether the switch is connected and has what the conferences need, except for changes whose requests still wait.
    #[must_use]
    pub fn is_switch_whole(&self) -> bool {
        self.shared.at_switch.borrow().is_whole()
    }

    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }
}

impl Shared {
    fn lock_touched(&self) -> std::sync::MutexGuard<'_, Touched> {
        self.touched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, conference: Name, kind: EventKind, time_ms: u64) {
        let mut last = self
            .last_event
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // The number stays below 2^53, up to which JavaScript holds integers exactly, for 200 years.
        *last = (*last + 1).max(time_ms.saturating_mul(1_000));
        let event = Event {
            number: *last,
            time_ms,
            conference,
            kind,
        };
        // The event is sent before another event gets a number, so that each reader sees growing numbers. Sending fails
        // if nobody reads.
        let _ = self.events.send(Arc::new(event));
    }

    fn touch(&self, legs: BTreeSet<u16>) -> ChangeNumber {
        if legs.is_empty() {
            return 0;
        }
        let change = {
            let mut touched = self.lock_touched();
            touched.legs.extend(legs);
            touched.change += 1;
            touched.change
        };
        self.is_touched.notify_waiters();
        change
    }
}

async fn read(store: &Store) -> Result<Model, BeginError> {
    let mut records = Vec::new();
    for (key, value) in store.read_all().await? {
        let key: Key = key.parse()?;
        let record = Record::from_json(&key, &value)?;
        records.push((key, record));
    }
    let (model, orphans) = Model::load(records);
    if !orphans.is_empty() {
        let gone = orphans.iter().map(|key| vec![(key.to_string(), None)]);
        store.write(gone.collect()).await?;
    }
    Ok(model)
}

struct Writer {
    shared: Arc<Shared>,
    /// The shared model, and the changes that the store does not have yet.
    model: Model,
    store: Store,
    queue: mpsc::Receiver<Job>,
    metrics: Arc<Metrics>,
    /// Whether the store's last write failed.
    is_failing: bool,
}

impl Writer {
    async fn run(mut self) {
        let mut jobs = Vec::new();
        let store = self.store.clone();
        loop {
            let n_jobs = tokio::select! {
                n_jobs = self.queue.recv_many(&mut jobs, BATCH_MAX) => n_jobs,
                () = store.lost() => return,
            };
            if n_jobs == 0 {
                return;
            }
            let mut waiting = jobs.drain(..);
            while waiting.len() > 0 {
                if !self.serve(&mut waiting).await {
                    return;
                }
            }
        }
    }

    /// Carries out the requests of the next jobs. Returns whether this service still leads.
    async fn serve(&mut self, jobs: &mut std::vec::Drain<'_, Job>) -> bool {
        let now_ms = now_ms();
        let mut n_events = 0;
        let mut done: Vec<(Job, Change)> = Vec::new();
        let mut groups = Vec::new();
        while n_events < EVENTS_PER_WRITE
            && let Some(job) = jobs.next()
        {
            let mut new_key = random_key;
            let mut outside = Outside {
                now_ms,
                new_key: &mut new_key,
            };
            match self.model.plan(&job.request, &mut outside) {
                Ok(change) => {
                    let group = group_of(&change);
                    if let Err(error) = self.store.check_group(&group) {
                        answer(job, Err(CoreError::TooLarge(error.to_string())));
                        continue;
                    }
                    self.model.apply(&change);
                    n_events += change.events.len();
                    done.push((job, change));
                    if !group.is_empty() {
                        groups.push(group);
                    }
                }
                Err(refusal) => answer(job, Err(refusal.into())),
            }
        }
        let has_written = !groups.is_empty();
        let stored = if has_written {
            let began = Instant::now();
            let written = self.store.write(groups).await;
            self.metrics.store_write(written.is_ok(), began.elapsed());
            written
        } else {
            Ok(())
        };
        match stored {
            Ok(()) => {
                if has_written && std::mem::take(&mut self.is_failing) {
                    tracing::info!("the store takes writes again");
                }
                self.publish(done, now_ms).await;
                true
            }
            Err(error) => {
                // A line for each request would fill the rest of the disk.
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(%error, "the store failed");
                }
                // Requests that change nothing fail, too: what they ask for may be in the model only because of another
                // request in this batch.
                for (job, _) in done {
                    answer(job, Err(CoreError::Store(error.to_string())));
                }
                let store = self.store.clone();
                tokio::select! {
                    leads = self.read_again() => leads,
                    () = store.lost() => false,
                }
            }
        }
    }

    /// Applies changes that are now in the store to the shared model, notifies the connection to the switch, sends the
    /// events, and answers the requests.
    async fn publish(&self, done: Vec<(Job, Change)>, time_ms: u64) {
        let legs: Vec<BTreeSet<u16>> = {
            let mut model = self.shared.model.write().await;
            let changes = done.iter().map(|(_, change)| model.apply(change));
            changes.collect()
        };
        for ((job, change), legs) in done.into_iter().zip(legs) {
            let number = self.shared.touch(legs);
            for (conference, kind) in change.events {
                self.shared.tell(conference, kind, time_ms);
            }
            answer(job, Ok(number));
        }
    }

    /// Reads the store again and again until a reading succeeds. Meanwhile the writer makes no changes. Returns whether
    /// this service still leads.
    async fn read_again(&mut self) -> bool {
        let mut is_logged = false;
        loop {
            match read(&self.store).await {
                Ok(read) => {
                    self.shared.model.write().await.clone_from(&read);
                    self.shared.touch(read.legs().collect());
                    self.model = read;
                    return true;
                }
                Err(BeginError::Store(StoreError::NoLeader | StoreError::InUse(_))) => {
                    return false;
                }
                Err(error) if !is_logged => {
                    tracing::error!(%error, "the store cannot be read");
                    is_logged = true;
                }
                Err(_) => {}
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}

/// Returns what the store writes for one request.
fn group_of(change: &Change) -> Vec<Write> {
    let writes = change.writes.iter();
    writes
        .map(|(key, record)| (key.to_string(), record.as_ref().map(Record::to_json)))
        .collect()
}

fn answer(job: Job, result: Result<ChangeNumber, CoreError>) {
    // Sending fails if the caller has stopped waiting.
    let _ = job.answer.send(result);
}

fn random_key() -> [u8; hello::KEY_LEN] {
    let mut key = [0; hello::KEY_LEN];
    // The system's random number generator fails only on a system that has none.
    getrandom::fill(&mut key).unwrap_or_else(|error| unreachable!("{error}"));
    key
}

/// The time in milliseconds since 1970.
#[must_use]
pub fn now_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    since_1970.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use conference_api::{
        ConferenceSpec, ParticipantSpec, QualitySpec, SubscriptionSpec, TrackKind, TrackPath,
        TrackSpec, Transport,
    };
    use conference_store::Embedded;

    use super::*;

    fn name(text: &str) -> Name {
        Name::new(text).expect("a name")
    }

    fn conference(text: &str) -> Request {
        Request::PutConference {
            conference: name(text),
            spec: ConferenceSpec::default(),
        }
    }

    fn participant(text: &str) -> Request {
        Request::PutParticipant {
            conference: name("c"),
            participant: name(text),
            spec: ParticipantSpec::default(),
            expires_ms: 1,
        }
    }

    fn track_spec(n_qualities: usize) -> TrackSpec {
        let qualities = ["one", "two", "three"][..n_qualities].iter();
        let qualities = qualities.map(|quality| QualitySpec {
            name: name(quality),
            max_kbps: 64,
            leg: None,
        });
        TrackSpec {
            kind: TrackKind::Audio,
            transport: Transport::Rtp,
            qualities: qualities.collect(),
            sdp: String::new(),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_was_acknowledged_is_there_after_a_restart_and_others_hear_of_it_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let core = Core::begin(Embedded::open(&path).expect("it opens"))
            .await
            .expect("it begins");
        let mut events = core.events();
        core.ask(conference("c")).await.expect("done");
        core.ask(conference("c")).await.expect("done already");
        let all = (0..500).map(|n| core.ask(participant(&format!("p{n}"))));
        let all: Vec<_> = all
            .map(|ask| async move { ask.await.expect("done") })
            .collect();
        for one in all {
            one.await;
        }
        let refused = Request::PutParticipant {
            conference: name("none"),
            participant: name("p"),
            spec: ParticipantSpec::default(),
            expires_ms: 1,
        };
        let refused = core.ask(refused).await.expect_err("refused");
        assert!(
            refused
                .to_string()
                .starts_with("there is no conference none"),
            "{refused}"
        );
        let first = events.recv().await.expect("an event");
        assert_eq!(first.kind, EventKind::ConferenceCreated);
        let mut last = first.number;
        for n in 0..500 {
            let event = events.recv().await.expect("an event");
            assert_eq!(
                event.kind,
                EventKind::Joined {
                    participant: name(&format!("p{n}"))
                }
            );
            assert!(event.number > last);
            last = event.number;
        }
        assert!(events.try_recv().is_err());
        drop(core);
        let store = loop {
            match Embedded::open(&path) {
                Ok(store) => break store,
                // The writer's task of the former `Core` has not ended yet, so the store is still in use.
                Err(StoreError::InUse(_)) => tokio::task::yield_now().await,
                Err(error) => unreachable!("{error}"),
            }
        };
        let core = Core::begin(store).await.expect("it begins");
        let model = core.model().await;
        assert_eq!(
            model.participants(&name("c")).expect("it is there").len(),
            500
        );
    }

    /// Makes a request, and checks that the answer comes when the switch has the change. Returns the number of the
    /// change.
    async fn waits_for_the_switch(core: &Core, request: Request) -> ChangeNumber {
        let asked = {
            let core = core.clone();
            tokio::spawn(async move { core.carry_out(request).await })
        };
        let (legs, change) = core.touched().await;
        assert!(!legs.is_empty() && change == core.last_change());
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert!(!asked.is_finished());
        core.switch_has(change);
        asked.await.expect("it ran").expect("done");
        change
    }

    #[tokio::test]
    async fn an_answer_waits_for_a_switch_that_is_not_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Embedded::open(&folder.path().join("store")).expect("it opens");
        let core = Core::begin(store).await.expect("it begins");
        // There is no leg yet, so the switch needs nothing.
        core.carry_out(conference("c")).await.expect("done");
        core.carry_out(participant("p")).await.expect("done");
        let path = TrackPath {
            participant: name("p"),
            track: name("t"),
        };
        let track = |n_qualities: usize| Request::PutTrack {
            conference: name("c"),
            path: path.clone(),
            spec: track_spec(n_qualities),
        };
        // A service that has just begun to lead is not connected yet.
        assert_eq!(waits_for_the_switch(&core, track(1)).await, 1);
        assert_eq!(waits_for_the_switch(&core, track(2)).await, 2);
        core.switch_connection_begins();
        let change = waits_for_the_switch(&core, track(3)).await;
        assert_eq!(change, 3);
        core.switch_is_away();
        assert!(!core.is_switch_whole());
        let gone = Request::DeleteTrack {
            conference: name("c"),
            path: path.clone(),
        };
        core.carry_out(gone).await.expect("done without a switch");
        // A write to the switch that began before the track was deleted ends after the deletion.
        core.switch_has(change);
        assert!(!core.is_switch_whole());
        let (_, change) = core.touched().await;
        assert_eq!(change, 4);
        core.switch_has(change);
        assert!(core.is_switch_whole());
    }

    /// Begins with a new store at this path, and makes conference "c".
    async fn with_a_conference(path: &Path) -> Core {
        let store = Embedded::open(path).expect("it opens");
        let core = Core::begin(store).await.expect("it begins");
        core.ask(conference("c")).await.expect("done");
        core
    }

    #[tokio::test]
    async fn a_request_made_twice_is_not_answered_as_done_if_the_store_took_neither() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let core = with_a_conference(&path).await;
        std::fs::rename(&path, folder.path().join("elsewhere")).expect("moved");
        // This thread alone runs the writer, so both requests are in one batch.
        let both = tokio::join!(core.ask(participant("p")), core.ask(participant("p")));
        for answer in [both.0, both.1] {
            assert!(matches!(answer, Err(CoreError::Store(_))), "{answer:?}");
        }
    }

    #[tokio::test]
    async fn many_joins_at_once_overflow_no_reader_of_events() {
        let folder = tempfile::tempdir().expect("a folder");
        let core = with_a_conference(&folder.path().join("store")).await;
        let join = |participant: String, spec| Request::PutParticipant {
            conference: name("c"),
            participant: name(&participant),
            spec,
            expires_ms: 1,
        };
        let mut to_all = ParticipantSpec::default();
        for publisher in 0..16 {
            let publisher = format!("publisher{publisher}");
            let mut spec = ParticipantSpec::default();
            let of_publisher = to_all.subscriptions.entry(name(&publisher)).or_default();
            for track in 0..16 {
                let track = name(&format!("track{track}"));
                spec.tracks.insert(track.clone(), track_spec(1));
                of_publisher.insert(track, SubscriptionSpec::default());
            }
            core.ask(join(publisher, spec)).await.expect("done");
        }
        let mut events = core.events();
        let n_events = 20 * (1 + 256);
        assert!(n_events > EVENTS_MAX);
        let reading = tokio::spawn(async move {
            for _ in 0..n_events {
                events.recv().await.expect("no event is lost");
            }
        });
        let mut joins = tokio::task::JoinSet::new();
        for receiver in 0..20 {
            let request = join(format!("receiver{receiver}"), to_all.clone());
            let core = core.clone();
            joins.spawn(async move { core.ask(request).await });
        }
        for joined in joins.join_all().await {
            joined.expect("done");
        }
        reading.await.expect("all are read");
        let of_two = ["one", "two"].map(|it| (name(it), SubscriptionSpec::default()));
        let too_many = (0..129).map(|it| (name(&format!("p{it}")), of_two.clone().into()));
        let spec = ParticipantSpec {
            subscriptions: too_many.collect(),
            ..ParticipantSpec::default()
        };
        let refused = core.ask(join("eve".to_owned(), spec)).await;
        let refused = refused.expect_err("refused").to_string();
        assert_eq!(refused, "subscriptions: expected 0 to 256, found 258");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_failed_store_did_not_take_has_not_happened() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("store");
        let core = with_a_conference(&path).await;
        let elsewhere = folder.path().join("elsewhere");
        std::fs::rename(&path, &elsewhere).expect("moved");
        let failed = core
            .ask(participant("p"))
            .await
            .expect_err("the store failed");
        assert!(matches!(failed, CoreError::Store(_)), "{failed}");
        assert_eq!(
            core.model()
                .await
                .participants(&name("c"))
                .expect("it is there")
                .len(),
            0
        );
        std::fs::rename(&elsewhere, &path).expect("moved back");
        core.ask(participant("p")).await.expect("the store is back");
        assert_eq!(
            core.model()
                .await
                .participants(&name("c"))
                .expect("it is there")
                .len(),
            1
        );
    }
}
