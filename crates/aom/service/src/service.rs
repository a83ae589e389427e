//! The service: one task that owns the state, the connection to the switch and the sessions of members, so only one
//! change happens at a time. Requests of operators and messages of members wait in queues. While an epoch change waits
//! for members, the service handles messages of members but no requests of operators.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use p4runtime_client::SwitchAddress;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior};

use crate::authority::AuthorityError;
use crate::epochs;
use crate::members::{Fingerprint, FromMember, Members};
use crate::operator::{Answer, Request};
use crate::rejoins::{RejoinLimits, Rejoins};
use crate::sequencer::{Connection, ConnectionError, Found, Sequencer};
use crate::sessions::Sessions;
use crate::state::{BYZANTINE_MEMBERS_MIN, Group, Phase, State};
use crate::store::{Store, StoreError};

/// The interval of the check whether the switch has restarted or has another program.
pub const CHECK_EVERY: Duration = Duration::from_secs(1);
/// The first and the longest pause before the next attempt to connect to a switch that does not answer.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// How long another controller may be primary before the service ends. For the first connection, [`FirstBid`] sets
/// the time.
pub const RIVAL_FOR: Duration = Duration::from_secs(3);
/// The service begins a new epoch when a group has reached this sequence number. 16 million numbers then remain, which
/// last for some seconds with the fastest senders.
const NUMBERS_NEAR_END: u32 = 0xff00_0000;
/// The most operator requests in the queue.
const WAITING_MAX: usize = 64;

#[derive(Debug)]
pub struct Options {
    /// The address of the switch's P4Runtime server.
    pub switch: SwitchAddress,
    pub device_id: u64,
    /// The service's folder.
    pub state: PathBuf,
    pub sequencer: Sequencer,
    /// How long an epoch change waits for connected members that do not answer. Until then the changes of all
    /// other groups wait, too.
    pub ack_deadline: Duration,
    /// Whether the service may replace another program that the switch runs.
    pub replaces_programs: bool,
    pub first_bid: FirstBid,
    /// How often members may cause a new epoch.
    pub rejoins: RejoinLimits,
    /// The source of epoch numbers.
    pub clock: Clock,
    /// For tests: the name of the point in [`Service::run`]'s steps at which the service ends as if it were killed.
    pub stop_at: Option<&'static str>,
}

/// How the service becomes primary controller at its start if the switch has another primary. If another controller
/// displaces the service later, the service does not displace that controller in turn, since two services would then
/// displace each other for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstBid {
    /// How long the service waits for the other controller to end.
    pub wait: Duration,
    /// Whether the service displaces the other controller at once.
    pub takes_over: bool,
}

impl Default for FirstBid {
    fn default() -> Self {
        FirstBid {
            wait: RIVAL_FOR,
            takes_over: false,
        }
    }
}

/// The host's clock, as the time since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    pub fn new(read: impl Fn() -> Duration + Send + Sync + 'static) -> Clock {
        Clock(Arc::new(read))
    }

    pub(crate) fn now(&self) -> Duration {
        (self.0)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Clock(..)")
    }
}

/// Makes member files.
pub trait Issue: Send {
    /// Returns a new file for a member, and the fingerprint of the certificate in the file.
    ///
    /// # Errors
    /// If the certificate cannot be made; the reason is in words.
    fn issue(&self, group: &str, member: &str) -> Result<(String, Fingerprint), String>;
}

#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// A failure of the connection to the switch that no later attempt can mend.
    #[error("the sequencer: {0}")]
    Connection(#[from] ConnectionError),
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    #[error("stopped at \"{0}\"")]
    StoppedAt(&'static str),
}

type Asked = (Request, oneshot::Sender<Answer>);

/// A handle with which operators reach the service.
#[derive(Debug, Clone)]
pub struct Operator(mpsc::Sender<Asked>);

impl Operator {
    /// Sends a request and waits for the answer. The service carries out the request even if the caller gives up.
    pub async fn ask(&self, request: Request) -> Answer {
        let (answer, answered) = oneshot::channel();
        let ending = || {
            Answer::Failed {
            error: "the configuration service is ending: when it runs again, `reprise aom group show` shows what was done".to_owned(),
        }
        };
        if self.0.send((request, answer)).await.is_err() {
            return ending();
        }
        answered.await.unwrap_or_else(|_| ending())
    }
}

/// A service that holds the lock of its folder.
pub struct Service {
    core: Core,
    operator: Operator,
    members: Members,
    asked: mpsc::Receiver<Asked>,
}

pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) issuer: Box<dyn Issue>,
    pub(crate) store: Store,
    pub(crate) state: State,
    pub(crate) sessions: Sessions,
    pub(crate) from_members: mpsc::Receiver<FromMember>,
    pub(crate) switch: Switch,
    /// Groups that need a new epoch because their sequence numbers run out.
    pub(crate) due: BTreeSet<String>,
    pub(crate) rejoins: Rejoins,
    /// Group and name of members that did not acknowledge an epoch in time. Further epoch changes do not wait for these
    /// members until they have acknowledged an epoch.
    pub(crate) late: BTreeSet<(String, String)>,
    /// For how long the switch stamped no requests (gave them no sequence numbers) during each group's last epoch
    /// change.
    pub(crate) gaps: BTreeMap<String, Duration>,
    /// The time at which the switch stopped stamping, for each group that is in an epoch change.
    pub(crate) stopped_at: BTreeMap<String, Instant>,
}

/// The connection to the switch, or why there is none.
pub(crate) struct Switch {
    pub(crate) connection: Option<Connection>,
    pub(crate) because: String,
    retry_at: Instant,
    retry_after: Duration,
    rival_since: Option<Instant>,
    /// How to become primary for the first time; `None` once the service has been primary.
    first_bid: Option<FirstBid>,
}

impl Service {
    /// Opens and locks the folder, and only then calls `issuer`, since the issuer's authority may be in that folder.
    /// Everything else happens in [`Service::run`].
    ///
    /// # Errors
    /// If another service uses the folder, or the folder's state file does not contain a service's state.
    pub fn open(
        options: Options,
        issuer: impl FnOnce() -> Result<Box<dyn Issue>, AuthorityError>,
    ) -> Result<Service, ServiceError> {
        let store = Store::open(&options.state)?;
        let issuer = issuer()?;
        let state = match store.load()? {
            Some(state) => state,
            None => State::new(getrandom::u64()?),
        };
        let (members, from_members) = Members::channel();
        let (sender, asked) = mpsc::channel(WAITING_MAX);
        let switch = Switch::unknown(options.first_bid);
        let core = Core {
            rejoins: Rejoins::new(options.rejoins),
            late: BTreeSet::new(),
            options,
            issuer,
            store,
            state,
            sessions: Sessions::default(),
            from_members,
            switch,
            due: BTreeSet::new(),
            gaps: BTreeMap::new(),
            stopped_at: BTreeMap::new(),
        };
        Ok(Service {
            core,
            operator: Operator(sender),
            members,
            asked,
        })
    }

    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator.clone()
    }

    #[must_use]
    pub fn members(&self) -> Members {
        self.members.clone()
    }

    /// Serves until `stop` completes. The next service on the folder continues unfinished changes.
    ///
    /// # Errors
    /// If the folder cannot be written, or another controller stays the switch's primary.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServiceError> {
        let Service {
            mut core,
            mut asked,
            operator: _operator,
            members: _members,
        } = self;
        let mut checks = tokio::time::interval(CHECK_EVERY);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stop = std::pin::pin!(stop);
        loop {
            core.work().await?;
            tokio::select! {
                () = &mut stop => return Ok(()),
                Some((request, answer)) = asked.recv() => {
                    let given = core.answer(request).await?;
                    // Sending fails if the caller has stopped waiting; the request is carried out nevertheless.
                    let _ = answer.send(given);
                }
                Some(message) = core.from_members.recv() => core.receive(message),
                _ = checks.tick() => core.check().await?,
                error = lost(&mut core.switch.connection) => core.outcome(Err(error.into()))?,
                () = tokio::time::sleep_until(core.switch.retry_at), if core.switch.connection.is_none() => {}
            }
        }
    }
}

/// Returns the reason as soon as the switch ends the connection. Without this, a service that writes nothing would not
/// notice that another controller has displaced it.
async fn lost(connection: &mut Option<Connection>) -> ConnectionError {
    match connection {
        Some(connection) => connection.lost().await,
        None => std::future::pending().await,
    }
}

impl Switch {
    fn unknown(first_bid: FirstBid) -> Switch {
        Switch {
            connection: None,
            because: "the service has not tried to connect yet".to_owned(),
            retry_at: Instant::now(),
            retry_after: RETRY_AFTER[0],
            rival_since: None,
            first_bid: Some(first_bid),
        }
    }

    /// How long this service tolerates the other controller.
    fn tolerance(&self, error: &ConnectionError) -> Duration {
        match self.first_bid {
            Some(bid) if error.primary().is_some() => bid.wait,
            _ => RIVAL_FOR,
        }
    }
}

impl Core {
    /// Connects to the switch if necessary, and carries out all pending changes.
    async fn work(&mut self) -> Result<(), ServiceError> {
        if self.switch.connection.is_none() {
            if Instant::now() < self.switch.retry_at {
                return Ok(());
            }
            let connected = self.connect().await;
            self.outcome(connected)?;
        }
        self.begin_what_is_due().await?;
        for group in self.state.groups.keys().cloned().collect::<Vec<_>>() {
            if self.switch.connection.is_some() {
                let done = self.go_on(&group).await;
                self.outcome(done)?;
            }
        }
        Ok(())
    }

    async fn begin_what_is_due(&mut self) -> Result<(), ServiceError> {
        let mut due = std::mem::take(&mut self.due);
        due.extend(self.caused_by_members());
        for name in due {
            match self.begin(&name, false).await {
                Ok(()) => self.save()?,
                Err(because) => tracing::warn!(group = name, because, "no new epoch"),
            }
        }
        Ok(())
    }

    /// Returns the Byzantine groups that need a new epoch because of their members. Either connected members have
    /// confirm keys that the epoch does not have, or the group has no epoch and all its members have joined. Respects
    /// the limits on how often members may cause a new epoch.
    fn caused_by_members(&mut self) -> Vec<String> {
        let now = Instant::now();
        let mut due = Vec::new();
        for (name, group) in &self.state.groups {
            if self.switch.connection.is_none() {
                break;
            }
            if group.waits_for_members() {
                if self.absent(name, group).is_empty()
                    && group.members.len() >= BYZANTINE_MEMBERS_MIN
                {
                    due.push(name.clone());
                }
                continue;
            }
            let wanting = self.wanting(name, group);
            // The first start of a member that the operator added is not limited.
            let is_first = |member: &&str| {
                group
                    .member(member)
                    .is_some_and(|it| it.confirm_key.is_none())
            };
            let (first, mut again): (Vec<&str>, Vec<&str>) =
                wanting.into_iter().partition(is_first);
            // Members that may not cause an epoch now are still receivers of an epoch that other members cause.
            again.retain(|it| self.rejoins.wait(name, it, now).is_zero());
            if !again.is_empty() {
                self.rejoins.take(name, &again, now);
            }
            if !again.is_empty() || !first.is_empty() {
                due.push(name.clone());
            }
        }
        due
    }

    /// Returns the connected members whose confirm key differs from their confirm key in the group's current epoch.
    pub(crate) fn wanting<'a>(&self, name: &str, group: &'a Group) -> Vec<&'a str> {
        let Some(epoch) = group
            .current
            .as_ref()
            .filter(|_| group.byzantine && group.phase == Phase::Active)
        else {
            return Vec::new();
        };
        let members = group.members.iter().map(|it| it.name.as_str());
        let wants = |member: &&str| {
            let key = self.sessions.confirm_key(name, member);
            key.is_some_and(|key| epoch.confirm_key(member) != Some(key))
        };
        members.filter(wants).collect()
    }

    /// Returns the members of a Byzantine group that have never joined and are not connected.
    pub(crate) fn absent<'a>(&self, name: &str, group: &'a Group) -> Vec<&'a str> {
        let members = group.members.iter();
        let absent = members.filter(|it| {
            it.confirm_key.is_none() && self.sessions.confirm_key(name, &it.name).is_none()
        });
        absent.map(|it| it.name.as_str()).collect()
    }

    pub(crate) fn is_late(&self, group: &str, member: &str) -> bool {
        self.late.contains(&(group.to_owned(), member.to_owned()))
    }

    /// Begins an epoch change with the confirm keys of the members' connected processes. The caller must save the
    /// state.
    pub(crate) async fn begin(&mut self, name: &str, is_switch_lost: bool) -> Result<(), String> {
        let Some(group) = self.state.groups.get_mut(name) else {
            return Ok(());
        };
        let byzantine = group.byzantine;
        for member in &mut group.members {
            let joined = self.sessions.confirm_key(name, &member.name);
            member.confirm_key = joined.filter(|_| byzantine).or(member.confirm_key);
        }
        let (last, clock) = (group.past.last_epoch, &self.options.clock);
        tokio::time::sleep(epochs::wait_after(last, clock.now())).await;
        let now = clock.now();
        let number = epochs::next(last, now)?;
        group.begin_advance(number, is_switch_lost)
    }

    /// Handles the result of work on the switch. After a failure of the switch the service reconnects. Any other error
    /// ends the service, and so does a rival controller that stays primary too long.
    pub(crate) fn outcome(&mut self, done: Result<(), ServiceError>) -> Result<(), ServiceError> {
        let switch = &mut self.switch;
        let error = match done {
            Ok(()) => {
                if switch.connection.is_some() {
                    switch.retry_after = RETRY_AFTER[0];
                    switch.rival_since = None;
                }
                return Ok(());
            }
            Err(ServiceError::Connection(error)) => error,
            Err(error) => return Err(error),
        };
        let now = Instant::now();
        if error.is_of_a_rival() {
            let since = *switch.rival_since.get_or_insert(now);
            if now - since >= switch.tolerance(&error) {
                return Err(error.after(now - since).into());
            }
        }
        let because = match error.primary() {
            Some(id) => format!(
                "another controller (election id {id}) is primary; the service ends if it still is after {} s",
                switch.tolerance(&error).as_secs()
            ),
            None => error.to_string(),
        };
        if because != switch.because {
            tracing::warn!(because, "no connection to the sequencer: trying again");
        }
        switch.connection = None;
        switch.because = because;
        switch.retry_at = now + switch.retry_after;
        switch.retry_after = (2 * switch.retry_after).min(RETRY_AFTER[1]);
        Ok(())
    }

    async fn connect(&mut self) -> Result<(), ServiceError> {
        let Options {
            switch,
            device_id,
            sequencer,
            replaces_programs,
            ..
        } = &self.options;
        let bid = self.switch.first_bid;
        let opened = Connection::open(
            switch,
            *device_id,
            sequencer,
            &self.state,
            *replaces_programs,
            bid.is_some_and(|bid| bid.takes_over),
        );
        let opened = opened.await;
        if opened
            .as_ref()
            .map_or_else(ConnectionError::is_displaced, |_| true)
        {
            self.switch.first_bid = None;
        }
        let (mut connection, found) = opened?;
        if found == Found::Nothing {
            // The new cookie is saved before the program is loaded. If the service is killed in between, its successor
            // loads the program again, and assigns no sequence number twice.
            self.state.cookie = getrandom::u64()?;
            self.state.instance = connection.instance();
            self.renew_all(|_| true, true).await;
            self.save()?;
            self.reach("load-saved")?;
            connection.load(self.state.cookie).await?;
            self.reach("load-done")?;
        }
        connection.read_entries().await?;
        if found == Found::Ours {
            let is_as_written = connection.is_as_written(&self.state).await?;
            if !is_as_written {
                tracing::warn!(
                    "the switch has other entries than this service's state, so the state is older than the last change: every group begins a new epoch"
                );
            }
            // Another service with a copy of the state may have continued an epoch change that is saved here.
            self.renew_all(
                |group| group.is_advancing() || !is_as_written,
                !is_as_written,
            )
            .await;
            self.save()?;
        }
        connection.write_entries(&self.state).await?;
        self.switch.connection = Some(connection);
        tracing::info!(
            switch = self.options.switch.address,
            "connected to the sequencer"
        );
        Ok(())
    }

    /// Begins new epochs for the chosen groups that had an epoch. With `is_switch_lost`, the switch has lost its state,
    /// and with it the last sequence numbers.
    async fn renew_all(&mut self, is_chosen: impl Fn(&Group) -> bool, is_switch_lost: bool) {
        for name in self.state.groups.keys().cloned().collect::<Vec<_>>() {
            let Some(group) = self.state.groups.get_mut(&name).filter(|it| is_chosen(it)) else {
                continue;
            };
            let had_one = group.current.is_some() || group.next.is_some();
            if matches!(group.phase, Phase::Halt(_) | Phase::Remove) || !had_one {
                group.current = group.current.take().filter(|_| !is_switch_lost);
                continue;
            }
            let begun = self.begin(&name, is_switch_lost).await;
            if let (Err(because), Some(group)) = (begun, self.state.groups.get_mut(&name)) {
                tracing::warn!(group = name, because, "no new epoch");
                group.current = None;
                group.next = None;
                group.phase = Phase::Resting(because);
            }
        }
    }

    /// Called periodically. Checks that the switch is still the same process with this service's program, and that each
    /// active group has sequence numbers left.
    async fn check(&mut self) -> Result<(), ServiceError> {
        let Some(connection) = &mut self.switch.connection else {
            return Ok(());
        };
        let checked = connection.check().await;
        self.outcome(checked.map_err(ServiceError::from))?;
        for (name, group) in &self.state.groups {
            let Some(connection) = &mut self.switch.connection else {
                return Ok(());
            };
            if group.phase != Phase::Active {
                continue;
            }
            match connection.last_number(group).await {
                Ok(Some(number)) if number >= NUMBERS_NEAR_END => {
                    tracing::info!(group = name, number, "few numbers are left: a new epoch");
                    self.due.insert(name.clone());
                }
                Ok(Some(_)) => {}
                Ok(None) => return self.outcome(Err(ConnectionError::Lost.into())),
                Err(error) => return self.outcome(Err(error.into())),
            }
        }
        Ok(())
    }

    pub(crate) fn save(&self) -> Result<(), ServiceError> {
        Ok(self.store.save(&self.state)?)
    }

    /// Returns an error, which ends the service, if a test has chosen this point between two steps
    /// ([`Options::stop_at`]).
    pub(crate) fn reach(&self, point: &'static str) -> Result<(), ServiceError> {
        if self.options.stop_at == Some(point) {
            Err(ServiceError::StoppedAt(point))
        } else {
            Ok(())
        }
    }
}
