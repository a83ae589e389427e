//! The service: one task that owns state, switch and sessions, so there is one change at a time. Operators
//! and members wait for their turn. While an advance waits for members, the service handles members and no
//! operators.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use conference::dial::SwitchAddress;
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

/// The interval of the check whether the switch still is the one that was loaded.
pub const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long a switch that does not answer is left alone, at first and at most.
const RETRY_AFTER: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(2)];
/// How long another controller may be in the way before the service gives up, unless it was told to wait longer for its
/// first connection.
pub const RIVAL_FOR: Duration = Duration::from_secs(3);
/// A group that has given this number is advanced: 16 million are left, some seconds of the fastest senders.
const NUMBERS_NEAR_END: u32 = 0xff00_0000;
/// Requests of operators that wait.
const WAITING_MAX: usize = 64;

/// How the service is started.
#[derive(Debug)]
pub struct Options {
    /// The switch's P4Runtime.
    pub switch: SwitchAddress,
    /// Its device.
    pub device_id: u64,
    /// The service's folder.
    pub state: PathBuf,
    /// The switch's program.
    pub sequencer: Sequencer,
    /// How long an advance waits for members that are connected and do not answer. All groups wait.
    pub ack_deadline: Duration,
    /// Whether the program that the switch runs may be another one, which is then lost.
    pub replaces_programs: bool,
    /// How it becomes the switch's controller when it starts.
    pub first_turn: FirstTurn,
    /// How often members can make a group begin a new epoch.
    pub rejoins: RejoinLimits,
    /// By which epochs are numbered.
    pub clock: Clock,
    /// For tests: the service ends there as if it were killed; the points are called by [`Service::run`]'s steps.
    pub stop_at: Option<&'static str>,
}

/// How a service that starts becomes the switch's primary controller where there is another one. Whoever displaces a
/// service later is left alone, however it was started: two that displaced each other would never end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstTurn {
    /// How long it waits for the other's end.
    pub wait: Duration,
    /// Whether it takes the role at once.
    pub takes_over: bool,
}

impl Default for FirstTurn {
    fn default() -> Self {
        FirstTurn {
            wait: RIVAL_FOR,
            takes_over: false,
        }
    }
}

/// A host's clock: the time since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// One that is read by calling this.
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

/// Makes members' files.
pub trait Issue: Send {
    /// A new file for a member, and the fingerprint of the certificate that is in it.
    ///
    /// # Errors
    /// In words.
    fn issue(&self, group: &str, member: &str) -> Result<(String, Fingerprint), String>;
}

/// Why the service ends.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// Its folder.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its authority.
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    /// Its switch, in a way that waiting does not mend.
    #[error("the sequencer: {0}")]
    Connection(#[from] ConnectionError),
    /// No random numbers.
    #[error("the system gives no random numbers: {0}")]
    Random(#[from] getrandom::Error),
    /// [`Options::stop_at`].
    #[error("stopped at \"{0}\"")]
    StoppedAt(&'static str),
}

/// A request and where its answer goes.
type Asked = (Request, oneshot::Sender<Answer>);

/// The service, as operators reach it.
#[derive(Debug, Clone)]
pub struct Operator(mpsc::Sender<Asked>);

impl Operator {
    /// Sends a request and waits for the answer. The request is carried out even if the caller gives up.
    pub async fn ask(&self, request: Request) -> Answer {
        let (answer, answered) = oneshot::channel();
        let ending = || {
            Answer::Failed {
            error: "the configuration service is ending: look with `reprise aom group show` what was done once it is there again".to_owned(),
        }
        };
        if self.0.send((request, answer)).await.is_err() {
            return ending();
        }
        answered.await.unwrap_or_else(|_| ending())
    }
}

/// A service that has its folder.
pub struct Service {
    core: Core,
    operator: Operator,
    members: Members,
    asked: mpsc::Receiver<Asked>,
}

/// The state that the task owns.
pub(crate) struct Core {
    pub(crate) options: Options,
    pub(crate) issuer: Box<dyn Issue>,
    pub(crate) store: Store,
    pub(crate) state: State,
    pub(crate) sessions: Sessions,
    pub(crate) from_members: mpsc::Receiver<FromMember>,
    pub(crate) switch: Switch,
    /// Groups that are to be advanced, since their numbers end.
    pub(crate) due: BTreeSet<String>,
    /// The epochs that members have caused, and may cause.
    pub(crate) rejoins: Rejoins,
    /// Members that an advance has waited for in vain, by group: the next ones do not, until it has said something.
    pub(crate) late: BTreeSet<(String, String)>,
    /// How long nothing was stamped at the last advance.
    pub(crate) gaps: BTreeMap<String, Duration>,
    /// When a group was stopped that is being advanced.
    pub(crate) stopped_at: BTreeMap<String, Instant>,
}

/// The switch, there or not.
pub(crate) struct Switch {
    pub(crate) connection: Option<Connection>,
    /// Why it is not there.
    pub(crate) because: String,
    retry_at: Instant,
    retry_after: Duration,
    rival_since: Option<Instant>,
    /// How to become primary for the first time; none when the service has been so.
    first_turn: Option<FirstTurn>,
}

impl Service {
    /// Opens the folder, then calls `issuer`, whose authority may be in that folder. Nothing else is done
    /// before [`Service::run`].
    ///
    /// # Errors
    /// The folder is another service's, or its content is no state.
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
        let switch = Switch::unknown(options.first_turn);
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

    /// For operators' sockets.
    #[must_use]
    pub fn operator(&self) -> Operator {
        self.operator.clone()
    }

    /// For members' connections.
    #[must_use]
    pub fn members(&self) -> Members {
        self.members.clone()
    }

    /// Serves until `stop`. The next service on the folder goes on with unfinished changes.
    ///
    /// # Errors
    /// The folder cannot be written, or the switch is another controller's.
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
                    // The caller may be gone; the request is done all the same.
                    let _ = answer.send(given);
                }
                Some(message) = core.from_members.recv() => core.hear(message),
                _ = checks.tick() => core.check().await?,
                error = lost(&mut core.switch.connection) => core.outcome(Err(error.into()))?,
                () = tokio::time::sleep_until(core.switch.retry_at), if core.switch.connection.is_none() => {}
            }
        }
    }
}

/// Why a connection is none any more, as soon as the switch says so: a service that writes nothing would not find out that
/// another controller has displaced it.
async fn lost(connection: &mut Option<Connection>) -> ConnectionError {
    match connection {
        Some(connection) => connection.lost().await,
        None => std::future::pending().await,
    }
}

impl Switch {
    fn unknown(first_turn: FirstTurn) -> Switch {
        Switch {
            connection: None,
            because: "it was not looked for yet".to_owned(),
            retry_at: Instant::now(),
            retry_after: RETRY_AFTER[0],
            rival_since: None,
            first_turn: Some(first_turn),
        }
    }

    /// How long the controller that is in the way may be so.
    fn patience(&self, error: &ConnectionError) -> Duration {
        match self.first_turn {
            Some(turn) if error.primary().is_some() => turn.wait,
            _ => RIVAL_FOR,
        }
    }
}

impl Core {
    /// Writes the state's entries to the switch, as far as the switch is there.
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

    /// Groups whose members have joined with other keys than the epoch has, as far as they may have a new epoch for it.
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
            // The operator has added it: that is one epoch, however often it starts later.
            let is_first = |member: &&str| {
                group
                    .member(member)
                    .is_some_and(|it| it.confirm_key.is_none())
            };
            let (first, mut again): (Vec<&str>, Vec<&str>) =
                wanting.into_iter().partition(is_first);
            // Those that may cause none are taken in with the others.
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

    /// Members that are connected and confirm with another key than the group's epoch has.
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

    /// A Byzantine group's members that have never joined, and are not connected.
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

    /// Begins an advance, with the keys of the processes that are connected. The caller writes it down.
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

    /// After a failure of the switch the service connects again; any other failure ends the service.
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
            if now - since >= switch.patience(&error) {
                return Err(error.after(now - since).into());
            }
        }
        let because = match error.primary() {
            Some(id) => format!(
                "another controller (election id {id}) is primary; the service ends if it still is after {} s",
                switch.patience(&error).as_secs()
            ),
            None => error.to_string(),
        };
        if because != switch.because {
            tracing::warn!(because, "the sequencer is gone, and looked for again");
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
        let turn = self.switch.first_turn;
        let opened = Connection::open(
            switch,
            *device_id,
            sequencer,
            &self.state,
            *replaces_programs,
            turn.is_some_and(|turn| turn.takes_over),
        );
        let opened = opened.await;
        if opened
            .as_ref()
            .map_or_else(ConnectionError::is_displaced, |_| true)
        {
            self.switch.first_turn = None;
        }
        let (mut connection, found) = opened?;
        if found == Found::Nothing {
            // The new cookie is written first: a later service then loads the program again, and gives no
            // number twice.
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
                    "the sequencer is not as this service's state says: that is older than the last change; every group begins a new epoch"
                );
            }
            // Another service, with a copy of the state, may have gone on with an advance that is written down here.
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
            "the sequencer is there"
        );
        Ok(())
    }

    /// New epochs for the groups that are chosen, as far as they had one. A switch that has lost its state has lost the
    /// last numbers.
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

    /// From time to time: is it still that switch, and are there numbers left?
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
                    tracing::info!(group = name, number, "the epoch's numbers end: a new one");
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

    /// A point between two steps.
    pub(crate) fn reach(&self, point: &'static str) -> Result<(), ServiceError> {
        match self.options.stop_at == Some(point) {
            true => Err(ServiceError::StoppedAt(point)),
            false => Ok(()),
        }
    }
}
