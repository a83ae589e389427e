//! The notifications that BMv2 publishes by nanomsg: digests, aged entries, link changes, program swaps.
//!
//! One task receives the switch's events and makes messages. Each subscriber has its own task and a bounded channel,
//! so a slow subscriber misses messages and blocks nobody.

mod lists;
mod message;
mod socket;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control::{
    DigestNotice, DigestSender, IdleTimeoutNotice, IdleTimeoutSender, LinkState, Pipeline,
    Subscriber,
};
use dataplane::{IdleTimeout, TableId};
use serde_json::Value;
use tokio::sync::broadcast::{self, Sender};
use tokio::sync::mpsc::Receiver;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use crate::context::Context;
use crate::limits::{MESSAGES_WAITING_MAX, NOTICES_WAITING_MAX};
pub(crate) use lists::NoSuchList;
use lists::{Learned, Lists};
pub(crate) use message::Swap;
pub use socket::NotificationSocket;
use socket::Shared;

pub(crate) struct Notifications {
    device_id: u64,
    lists: Mutex<Lists>,
    /// Notified when a call may have changed the time at which the samples of a digest list must be sent.
    changed: Notify,
    messages: Sender<Shared>,
}

impl Notifications {
    pub(crate) fn new(device_id: u64) -> Self {
        let (messages, _) = broadcast::channel(MESSAGES_WAITING_MAX);
        Self {
            device_id,
            lists: Mutex::new(Lists::new(device_id)),
            changed: Notify::new(),
            messages,
        }
    }

    pub(crate) fn with_lists<R>(
        &self,
        pipeline: &Pipeline,
        work: impl FnOnce(&mut Lists) -> R,
    ) -> R {
        let done = work(&mut self.lists_of(pipeline));
        self.changed.notify_one();
        done
    }

    pub(crate) fn swap(&self, swap: Swap) {
        self.publish(message::swap(self.device_id, swap));
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lists_of(&self, pipeline: &Pipeline) -> MutexGuard<'_, Lists> {
        let mut lists = self.lock();
        if lists.generation() != pipeline.generation() {
            lists.begin(pipeline.generation(), &json_of(pipeline));
        }
        lists
    }

    /// Publishes a message, and returns whether there was a subscriber.
    fn publish(&self, message: Vec<u8>) -> bool {
        self.messages.send(message.into()).is_ok()
    }

    fn publish_learned(&self, lists: &mut Lists, learned: Learned) {
        if !self.publish(learned.message.clone()) {
            lists.forget(&learned);
        }
    }
}

fn json_of(pipeline: &Pipeline) -> Value {
    // A pipeline's config was parsed before, so it is JSON.
    serde_json::from_slice(pipeline.config()).unwrap_or_default()
}

pub(crate) struct Events {
    digests: Receiver<DigestNotice>,
    idle_timeouts: Receiver<IdleTimeoutNotice>,
    ports: watch::Receiver<u64>,
}

impl Events {
    pub(crate) fn of(ctx: &Context) -> Self {
        let (sender, digests) = DigestSender::channel(NOTICES_WAITING_MAX);
        ctx.device.subscribe(Subscriber::Digests(sender));
        let (sender, idle_timeouts) = IdleTimeoutSender::channel(NOTICES_WAITING_MAX);
        ctx.device.subscribe(Subscriber::IdleTimeouts(sender));
        let ports = ctx.device.port_changes();
        Self {
            digests,
            idle_timeouts,
            ports,
        }
    }
}

pub(crate) async fn publish(ctx: Arc<Context>, mut events: Events, socket: NotificationSocket) {
    let serving = tokio::spawn(socket.serve(ctx.notifications.messages.clone()));
    let (mut aged, mut up) = (Aged::default(), BTreeMap::new());
    // Like BMv2, first reports every port that is up.
    events.ports.mark_changed();
    loop {
        let due = ctx.notifications.lock().next_due();
        let waited = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            digest = events.digests.recv() => match digest {
                Some(digest) => learn(&ctx, &digest),
                None => break,
            },
            () = waited => {}
            () = ctx.notifications.changed.notified() => {}
            notice = events.idle_timeouts.recv() => match notice {
                Some(first) => aged.publish(&ctx, first, &mut events.idle_timeouts).await,
                None => break,
            },
            changed = events.ports.changed() => match changed {
                Ok(()) => publish_ports(&ctx, &mut up).await,
                Err(_) => break,
            },
        }
        let mut lists = ctx.notifications.lock();
        for learned in lists.due(Instant::now()) {
            ctx.notifications.publish_learned(&mut lists, learned);
        }
    }
    serving.abort();
}

fn learn(ctx: &Context, notice: &DigestNotice) {
    // The program of the digest may have been replaced.
    let Some(pipeline) = ctx.device.committed() else {
        return;
    };
    if pipeline.generation() != notice.generation {
        return;
    }
    let mut lists = ctx.notifications.lists_of(&pipeline);
    let digest = &notice.digest;
    if let Some(learned) = lists.push(&digest.name, &digest.members, Instant::now()) {
        ctx.notifications.publish_learned(&mut lists, learned);
    }
}

#[derive(Default)]
struct Aged {
    n_messages: u64,
    generation: u64,
    /// The ids of tables in BMv2 JSON, by name.
    tables: HashMap<String, i32>,
}

impl Aged {
    /// Publishes an aged entry together with the aged entries that wait behind it, in one message per table.
    async fn publish(
        &mut self,
        ctx: &Context,
        first: IdleTimeoutNotice,
        rest: &mut Receiver<IdleTimeoutNotice>,
    ) {
        let mut notices = vec![first];
        while notices.len() < NOTICES_WAITING_MAX
            && let Ok(notice) = rest.try_recv()
        {
            notices.push(notice);
        }
        let Some(pipeline) = ctx.device.committed() else {
            return;
        };
        self.begin(&pipeline);
        let mut by_table: BTreeMap<TableId, Vec<IdleTimeout>> = BTreeMap::new();
        for notice in notices {
            if notice.generation == pipeline.generation() {
                let entries = by_table.entry(notice.idle.table).or_default();
                entries.push(notice.idle);
            }
        }
        for (table, idle) in by_table {
            let named = ctx.read_first(&pipeline, move |switch| {
                let program = switch.program()?;
                let name = program.table_info(table)?.name.clone();
                let handle = |idle: &IdleTimeout| {
                    switch.entry_handle(table, &idle.entry.key, idle.entry.priority)
                };
                let handles = idle.iter().filter_map(handle).map(|handle| handle.0);
                Some((name, handles.collect::<Vec<u32>>()))
            });
            // An entry that was deleted has no handle.
            let Ok(Some((name, handles))) = named.await else {
                continue;
            };
            let Some(table) = self.tables.get(&name).filter(|_| !handles.is_empty()) else {
                continue;
            };
            let notifications = &ctx.notifications;
            let device_id = notifications.device_id;
            notifications.publish(message::ageing(
                device_id,
                self.n_messages,
                *table,
                &handles,
            ));
            self.n_messages += 1;
        }
    }

    fn begin(&mut self, pipeline: &Pipeline) {
        if self.generation == pipeline.generation() {
            return;
        }
        let json = json_of(pipeline);
        let pipelines = json["pipelines"].as_array().into_iter().flatten();
        let tables = pipelines.filter_map(|pipeline| pipeline["tables"].as_array());
        let number = |table: &Value| {
            let id = i32::try_from(table["id"].as_i64()?).ok()?;
            Some((table["name"].as_str()?.to_owned(), id))
        };
        self.tables = tables.flatten().filter_map(number).collect();
        self.generation = pipeline.generation();
    }
}

/// Publishes the ports whose link has changed since the last call. A port counts as down before the first call.
async fn publish_ports(ctx: &Context, up: &mut BTreeMap<u16, bool>) {
    let Ok(ports) = ctx.device.ports().await else {
        return;
    };
    let mut changed = Vec::new();
    for port in ports {
        let status = port.status;
        // A port without a network interface has no link.
        if status.link == LinkState::None {
            continue;
        }
        let was_up = up.insert(status.id.0, status.is_up()).unwrap_or(false);
        if was_up != status.is_up() {
            changed.push((status.id.0, status.is_up()));
        }
    }
    if !changed.is_empty() {
        let message = message::ports(ctx.notifications.device_id, &changed);
        ctx.notifications.publish(message);
    }
}
