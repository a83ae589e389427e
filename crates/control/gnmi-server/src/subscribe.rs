//! `Subscribe`: one task for each call.
//!
//! A subscription list becomes watches. A watch reads some leaves at an interval or after a port change. It sends
//! either every value, or only values that differ from those sent last.
//!
//! Source: gNMI specification 0.10.0, 3.5.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gnmi_proto::gnmi::get_request::DataType;
use gnmi_proto::gnmi::subscribe_request::Request;
use gnmi_proto::gnmi::subscribe_response::Response;
use gnmi_proto::gnmi::subscription_list::Mode;
use gnmi_proto::gnmi::{
    Notification, Path, SubscribeRequest, SubscribeResponse, Subscription, SubscriptionList,
    SubscriptionMode, Update,
};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tonic::{Status, Streaming};

use crate::get::{Wanted, expect_few};
use crate::interfaces::{Interface, Snapshot};
use crate::limits::{
    COUNTERS_LOOK_INTERVAL_MS, SAMPLE_AGE_MAX_MS, SAMPLE_INTERVAL_MIN_MS,
    TARGET_DEFINED_INTERVAL_MS, VALUES_PER_SECOND_MAX,
};
use crate::path::{Name, PathError, Query, answer_prefix, of_leaf};
use crate::schema::{LEAVES, Leaf};
use crate::service::{Shared, expect_no_extension};
use crate::value::{Encoded, Value};

type Answers = mpsc::Sender<Result<SubscribeResponse, Status>>;

const LAST_CHANGE: &[&str] = &["state", "last-change"];

pub(crate) async fn serve(
    shared: &Shared,
    mut requests: Streaming<SubscribeRequest>,
    answers: &Answers,
) -> Result<(), Status> {
    let first = requests.message().await?;
    let Some(SubscribeRequest {
        request: Some(Request::Subscribe(list)),
        extension,
    }) = first
    else {
        return Err(Status::invalid_argument(
            "expected a SubscriptionList first, found something else: nothing is subscribed to yet",
        ));
    };
    expect_no_extension(&extension)?;
    let mode = Mode::try_from(list.mode).map_err(|_| {
        Status::invalid_argument(format!("expected a mode from 0 to 2, found {}", list.mode))
    })?;
    let following = shared.interfaces.device().port_changes();
    let snapshot = shared.interfaces.look(Instant::now()).await?;
    let watches = watches(&list, mode, &snapshot)?;
    let _room = room_for(shared, &watches, snapshot.interfaces.len())?;
    let subscriber = Subscriber {
        shared,
        answers,
        encoded: Encoded::subscribed(list.encoding)?,
        prefix: answer_prefix(list.prefix.as_ref()),
        is_silent: list.updates_only,
    };
    match mode {
        Mode::Once => subscriber.send_once(watches, &snapshot).await,
        Mode::Poll => subscriber.poll(watches, &snapshot, requests).await,
        Mode::Stream => {
            subscriber
                .stream(watches, &snapshot, requests, following)
                .await
        }
    }
}

/// Leaves of some interfaces, and when they are read and sent.
struct Watch {
    name: Name,
    leaves: Vec<&'static Leaf>,
    /// The interval at which the leaves are read; `None` if they are not read at an interval.
    every: Option<Duration>,
    /// Whether the leaves are also read when a port's link or its enabled state has changed.
    is_on_notice: bool,
    /// Whether only changed values are sent.
    is_of_changes: bool,
    /// The interval at which unchanged values are sent too; `None` if they never are.
    heartbeat: Option<Duration>,
    next_look: Option<Instant>,
    next_heartbeat: Option<Instant>,
    /// The values sent last, by the positions of interface and leaf.
    sent: HashMap<(usize, usize), Value>,
}

impl Watch {
    fn new(name: &Name, leaves: Vec<&'static Leaf>) -> Self {
        Self {
            name: name.clone(),
            leaves,
            every: None,
            is_on_notice: false,
            is_of_changes: false,
            heartbeat: None,
            next_look: None,
            next_heartbeat: None,
            sent: HashMap::new(),
        }
    }

    fn begin(&mut self, now: Instant) {
        self.next_look = self.every.map(|every| now + every);
        self.next_heartbeat = self.heartbeat.map(|every| now + every);
    }

    fn next(&self) -> Option<Instant> {
        self.next_look.into_iter().chain(self.next_heartbeat).min()
    }

    /// Returns what the watch must send now; `None` if the watch has nothing to read or to send now.
    fn due(&mut self, now: Instant, has_notice: bool) -> Option<Scope> {
        let is_look = is_due(&mut self.next_look, self.every, now);
        let is_heartbeat = is_due(&mut self.next_heartbeat, self.heartbeat, now);
        let is_noticed = has_notice && self.is_on_notice;
        match (is_look || is_noticed, is_heartbeat) {
            (_, true) => Some(Scope::All),
            (true, false) if self.is_of_changes => Some(Scope::Changes),
            (true, false) => Some(Scope::All),
            (false, false) => None,
        }
    }

    /// How many values the watch reads per second, counting each value at least once.
    fn values_per_second(&self, n_interfaces: usize) -> usize {
        let intervals = self.every.into_iter().chain(self.heartbeat);
        let per_second =
            |every: Duration| 1_000_usize.div_ceil(every.as_millis().clamp(1, 1_000) as usize);
        let times: usize = intervals.map(per_second).sum();
        self.leaves.len() * n_interfaces * times.max(1)
    }
}

/// Whether the moment `next` has come. If so, advances `next` to the following multiple of the interval.
fn is_due(next: &mut Option<Instant>, every: Option<Duration>, now: Instant) -> bool {
    let (Some(at), Some(every)) = (*next, every) else {
        return false;
    };
    if at > now {
        return false;
    }
    let n_missed = (now - at).as_nanos() / every.as_nanos().max(1);
    let n_missed = u32::try_from(n_missed).unwrap_or(u32::MAX);
    let following = at + every.saturating_mul(n_missed) + every;
    *next = Some(following.max(now));
    true
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    All,
    Changes,
    /// Sends no values, but the values that were read count as sent.
    Nothing,
}

fn watches(list: &SubscriptionList, mode: Mode, snapshot: &Snapshot) -> Result<Vec<Watch>, Status> {
    if list.subscription.is_empty() {
        return Err(Status::invalid_argument(
            "expected at least one subscription, found none",
        ));
    }
    expect_few("subscription", list.subscription.len())?;
    let wanted = Wanted::of(DataType::All, &list.use_models)?;
    let mut all = Vec::new();
    for subscription in &list.subscription {
        let query = Query::of(list.prefix.as_ref(), subscription.path.as_ref());
        let query = query.map_err(PathError::read)?;
        let leaves = query.nodes.iter().flat_map(|node| node.leaves());
        let leaves: Vec<_> = leaves.filter(|leaf| wanted.has(leaf)).collect();
        let made = match mode {
            Mode::Stream => streamed(subscription, &query, leaves)?,
            Mode::Once | Mode::Poll => vec![Watch::new(&query.name, leaves)],
        };
        // No interface is added while the switch runs, so a path for a missing interface gets no updates (3.5.2.4).
        all.extend(made.into_iter().filter(|watch| {
            let mut interfaces = snapshot.interfaces.iter();
            interfaces.any(|it| watch.name.is_of(&it.name)) && !watch.leaves.is_empty()
        }));
    }
    Ok(all)
}

/// Makes the watches of a streamed subscription (gNMI specification, section 3.5.1.5.2).
fn streamed(
    subscription: &Subscription,
    query: &Query,
    leaves: Vec<&'static Leaf>,
) -> Result<Vec<Watch>, Status> {
    let mode = SubscriptionMode::try_from(subscription.mode).map_err(|_| {
        let found = subscription.mode;
        Status::invalid_argument(format!(
            "path {}: expected a mode from 0 to 2, found {found}",
            query.text
        ))
    })?;
    let heartbeat = interval("heartbeat_interval", subscription.heartbeat_interval, query)?;
    let (counters, others): (Vec<_>, Vec<_>) = leaves.into_iter().partition(|leaf| leaf.is_counter);
    let changes = |leaves| Watch {
        is_on_notice: true,
        is_of_changes: true,
        heartbeat,
        ..Watch::new(&query.name, leaves)
    };
    let looks = |leaves, every_ms: u64, is_of_changes| Watch {
        every: Some(Duration::from_millis(every_ms)),
        is_of_changes,
        heartbeat,
        ..Watch::new(&query.name, leaves)
    };
    Ok(match mode {
        SubscriptionMode::OnChange => vec![
            changes(others),
            looks(counters, COUNTERS_LOOK_INTERVAL_MS, true),
        ],
        SubscriptionMode::Sample => {
            let every = interval("sample_interval", subscription.sample_interval, query)?;
            let lowest = Duration::from_millis(SAMPLE_INTERVAL_MIN_MS);
            let all = [others, counters].concat();
            vec![Watch {
                every: Some(every.unwrap_or(lowest)),
                is_of_changes: subscription.suppress_redundant,
                // Without `suppress_redundant` each sample sends every value, so a heartbeat adds nothing.
                heartbeat: heartbeat.filter(|_| subscription.suppress_redundant),
                ..Watch::new(&query.name, all)
            }]
        }
        SubscriptionMode::TargetDefined if subscription.sample_interval > 0 => {
            return Err(Status::invalid_argument(format!(
                "path {}: expected no sample_interval with TARGET_DEFINED, found {} ns",
                query.text, subscription.sample_interval
            )));
        }
        SubscriptionMode::TargetDefined => vec![
            changes(others),
            looks(counters, TARGET_DEFINED_INTERVAL_MS, false),
        ],
    })
}

/// Checks an interval in nanoseconds; 0 means none.
fn interval(what: &str, ns: u64, query: &Query) -> Result<Option<Duration>, Status> {
    let interval = Some(Duration::from_nanos(ns)).filter(|_| ns > 0);
    match interval {
        Some(short) if short < Duration::from_millis(SAMPLE_INTERVAL_MIN_MS) => {
            Err(Status::invalid_argument(format!(
                "path {}: expected a {what} of {SAMPLE_INTERVAL_MIN_MS} ms at least, found {ns} ns",
                query.text
            )))
        }
        interval => Ok(interval),
    }
}

fn room_for(
    shared: &Shared,
    watches: &[Watch],
    n_interfaces: usize,
) -> Result<OwnedSemaphorePermit, Status> {
    let values = watches.iter().map(|watch| match watch.name {
        Name::Every => watch.values_per_second(n_interfaces),
        Name::One(_) => watch.values_per_second(1),
    });
    let n_values: usize = values.sum();
    let room = u32::try_from(n_values).ok().and_then(|n_values| {
        let semaphore = Arc::clone(&shared.values_per_second);
        semaphore.try_acquire_many_owned(n_values).ok()
    });
    room.ok_or_else(|| {
        let n_left = shared.values_per_second.available_permits();
        Status::resource_exhausted(format!(
            "the subscription reads {n_values} values in a second, but only {n_left} of {VALUES_PER_SECOND_MAX} are left for it: ask for fewer paths, or longer intervals"
        ))
    })
}

struct Subscriber<'a> {
    shared: &'a Shared,
    answers: &'a Answers,
    encoded: Encoded,
    prefix: Option<Path>,
    /// `updates_only`: the client does not want the initial values.
    is_silent: bool,
}

/// The client has left.
struct Gone;

type Sent = Result<(), Gone>;

impl Subscriber<'_> {
    /// Answers `ONCE`.
    async fn send_once(&self, mut watches: Vec<Watch>, snapshot: &Snapshot) -> Result<(), Status> {
        let _ = self.send_initial(&mut watches, snapshot).await;
        Ok(())
    }

    async fn send_initial(&self, watches: &mut [Watch], snapshot: &Snapshot) -> Sent {
        let scope = if self.is_silent {
            Scope::Nothing
        } else {
            Scope::All
        };
        for watch in watches {
            self.send(watch, snapshot, scope).await?;
        }
        self.answer(Response::SyncResponse(true)).await
    }

    async fn answer(&self, response: Response) -> Sent {
        let answer = SubscribeResponse {
            response: Some(response),
            ..SubscribeResponse::default()
        };
        self.answers.send(Ok(answer)).await.map_err(|_| Gone)
    }

    /// Answers polls (3.5.1.5.3).
    async fn poll(
        self,
        mut watches: Vec<Watch>,
        snapshot: &Snapshot,
        mut requests: Streaming<SubscribeRequest>,
    ) -> Result<(), Status> {
        if self.send_initial(&mut watches, snapshot).await.is_err() {
            return Ok(());
        }
        while let Some(request) = requests.message().await? {
            let Some(Request::Poll(_)) = request.request else {
                return Err(Status::invalid_argument(
                    "expected a Poll, found something else: the paths of a subscription cannot be changed",
                ));
            };
            let snapshot = self.shared.interfaces.look(Instant::now()).await?;
            if self.send_initial(&mut watches, &snapshot).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    async fn stream(
        self,
        mut watches: Vec<Watch>,
        snapshot: &Snapshot,
        mut requests: Streaming<SubscribeRequest>,
        mut changes: watch::Receiver<u64>,
    ) -> Result<(), Status> {
        if self.send_initial(&mut watches, snapshot).await.is_err() {
            return Ok(());
        }
        let began = Instant::now();
        watches.iter_mut().for_each(|watch| watch.begin(began));
        let mut is_open = true;
        loop {
            let next = watches.iter().filter_map(Watch::next).min();
            let next = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let has_notice = tokio::select! {
                changed = changes.changed() => {
                    changed.map_err(|_| Status::unavailable("the switch has stopped"))?;
                    true
                }
                () = next => false,
                request = requests.message(), if is_open => {
                    if request?.is_some() {
                        return Err(Status::invalid_argument(
                            "expected no more requests, found one: the paths of a subscription cannot be changed",
                        ));
                    }
                    // The client sends no more requests, but still reads.
                    is_open = false;
                    continue;
                }
            };
            let now = Instant::now();
            let due: Vec<_> = watches
                .iter_mut()
                .filter_map(|watch| Some((watch.due(now, has_notice)?, watch)))
                .collect();
            if due.is_empty() {
                continue;
            }
            let age_max = if has_notice {
                Duration::ZERO
            } else {
                Duration::from_millis(SAMPLE_AGE_MAX_MS)
            };
            let since = now.checked_sub(age_max).unwrap_or(now);
            let snapshot = self.shared.interfaces.look(since).await?;
            for (scope, watch) in due {
                if self.send(watch, &snapshot, scope).await.is_err() {
                    return Ok(());
                }
            }
        }
    }

    /// Sends the values that a watch reads: one message per interface, so that simultaneous changes stay together.
    async fn send(&self, watch: &mut Watch, snapshot: &Snapshot, scope: Scope) -> Sent {
        for (place, interface) in snapshot.interfaces.iter().enumerate() {
            if !watch.name.is_of(&interface.name) {
                continue;
            }
            if let Some(notification) = self.notification(watch, place, snapshot, scope) {
                self.answer(Response::Update(notification)).await?;
            }
        }
        Ok(())
    }

    fn notification(
        &self,
        watch: &mut Watch,
        place: usize,
        snapshot: &Snapshot,
        scope: Scope,
    ) -> Option<Notification> {
        let Interface { name, port } = &snapshot.interfaces[place];
        let mut notification = Notification {
            timestamp: snapshot.taken_ns,
            prefix: self.prefix.clone(),
            ..Notification::default()
        };
        for leaf in &watch.leaves {
            let value = leaf.read(name, port);
            let key = (place, place_of(leaf));
            let is_new = !watch.is_of_changes || watch.sent.get(&key) != value.as_ref();
            let is_sent = match scope {
                Scope::All => true,
                Scope::Changes => is_new,
                Scope::Nothing => false,
            };
            if is_sent && leaf.path == LAST_CHANGE && scope == Scope::Changes {
                // The time stamp is that of the change, not of the reading (3.5.2.3).
                notification.timestamp = i64::try_from(port.last_change_ns).unwrap_or(i64::MAX);
            }
            match (&value, is_sent) {
                (Some(value), true) => notification.update.push(Update {
                    path: Some(of_leaf(leaf.path, name)),
                    val: Some(value.typed(self.encoded)),
                    ..Update::default()
                }),
                // The value was known before and is unknown now.
                (None, true) if watch.sent.contains_key(&key) => {
                    notification.delete.push(of_leaf(leaf.path, name));
                }
                _ => {}
            }
            if watch.is_of_changes && is_new {
                match value {
                    Some(value) => drop(watch.sent.insert(key, value)),
                    None => drop(watch.sent.remove(&key)),
                }
            }
        }
        let has_news = !notification.update.is_empty() || !notification.delete.is_empty();
        has_news.then_some(notification)
    }
}

fn place_of(leaf: &Leaf) -> usize {
    LEAVES
        .iter()
        .position(|other| other.path == leaf.path)
        .unwrap_or_default()
}
