//! Webhooks: other programs get events as HTTP requests. Each hook gets its events in order and at its own pace.
//!
//! | step | what is lost if the service is killed after it |
//! | --- | --- |
//! | 1. The change is stored. | its event, and those that wait in the queue |
//! | 2. The hook's queue has the event. | the same |
//! | 3. The receiver has answered with a status from 200 to 299. | nothing |
//!
//! The queues are not stored. So a receiver must read the conferences again when it sees that the service was restarted
//! or that another service leads, and when it gets an event `lost`.

mod post;
mod queue;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use conference_api::{Event, Name};
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use self::post::Poster;
use self::queue::{Next, Queue};
use crate::core::Core;
use crate::live::Live;
use crate::metrics::Metrics;

/// The most events that wait for one hook. If one more comes, the oldest is lost.
const QUEUE_MAX: usize = 10_000;
/// How long the service tries to deliver an event.
const GIVE_UP: Duration = Duration::from_secs(600);
/// The pause after a first failure. It doubles with each further failure.
const RETRY_MIN: Duration = Duration::from_millis(500);
const RETRY_MAX: Duration = Duration::from_secs(60);

/// Where events go, and what signs them.
#[derive(Clone, PartialEq, Eq)]
pub struct Webhook {
    /// An address with `http` or `https`.
    pub url: String,
    /// The key that signs the events.
    pub secret: Vec<u8>,
    /// The names of the kinds of events that this hook gets; `None`: all kinds.
    pub events: Option<BTreeSet<String>>,
    /// The authorities that may have issued the receiver's certificate; `None`: those that browsers trust.
    pub authorities: Option<tls::Authorities>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.host())
    }
}

impl Webhook {
    /// Returns the scheme, host and port of the URL, for the log. The rest of the URL may be secret.
    #[must_use]
    pub fn host(&self) -> &str {
        let from = self.url.find("://").map_or(0, |at| at + 3);
        let end = self.url[from..].find(['/', '?', '#']);
        &self.url[..end.map_or(self.url.len(), |end| from + end)]
    }

    fn wants(&self, event: &Event) -> bool {
        let events = self.events.as_ref();
        events.is_none_or(|events| events.contains(event.kind.name()))
    }
}

/// Serves the hooks of the configuration, for ever. A hook that is still in the configuration after a reload keeps its
/// queue.
pub async fn run(core: Core, mut live: Live, metrics: Arc<Metrics>) {
    let mut tasks = JoinSet::new();
    let mut running: Vec<(Webhook, tokio::task::AbortHandle)> = Vec::new();
    loop {
        let wanted = live.get();
        running.retain(|(hook, task)| {
            let stays = wanted.webhooks.contains(hook);
            if !stays {
                task.abort();
            }
            stays
        });
        for hook in &wanted.webhooks {
            if running.iter().all(|(there, _)| there != hook) {
                let task = tasks.spawn(serve(core.clone(), hook.clone(), Arc::clone(&metrics)));
                running.push((hook.clone(), task));
            }
        }
        live.changed().await;
    }
}

/// Serves one hook until the service ends.
async fn serve(core: Core, hook: Webhook, metrics: Arc<Metrics>) {
    let mut events = core.events();
    let mut queue = Queue::new(QUEUE_MAX);
    let poster = Poster::new(&hook);
    let mut sending = None;
    loop {
        if sending.is_none() {
            sending = queue
                .next()
                .map(|next| Box::pin(send(&poster, &hook, &metrics, next)));
        }
        tokio::select! {
            event = events.recv() => match event {
                Ok(event) => if hook.wants(&event) {
                    let is_full = queue.push(event, Instant::now());
                    metrics.webhook_events_lost(is_full.into());
                },
                Err(RecvError::Lagged(n)) => {
                    metrics.webhook_events_lost(n);
                    let model = core.model().await;
                    let all: Vec<Name> = model.conferences().map(|(name, _)| name.clone()).collect();
                    queue.lose(all);
                }
                Err(RecvError::Closed) => return,
            },
            given_up = async { match &mut sending {
                Some(sending) => sending.await,
                None => std::future::pending().await,
            }} => {
                sending = None;
                metrics.webhook_events_lost(given_up.is_some().into());
                queue.lose(given_up);
            }
        }
    }
}

/// Sends one event again and again until the receiver takes it or the event is too old. Returns the event's conference
/// if the event was too old, and `None` if the receiver took it.
async fn send(poster: &Poster, hook: &Webhook, metrics: &Metrics, next: Next) -> Option<Name> {
    let mut pause = RETRY_MIN;
    let mut has_failed = false;
    loop {
        let posted = poster.post(&next.event).await;
        metrics.webhook(posted.is_ok());
        let why = match posted {
            Ok(()) => return None,
            Err(why) => why,
        };
        let is_over = next.queued.is_some_and(|at| at.elapsed() + pause > GIVE_UP);
        if is_over || !has_failed {
            let (event, conference) = (next.event.number, next.event.conference.as_str());
            tracing::warn!(hook = hook.host(), event, conference, %why, given_up = is_over, "a webhook failed");
        }
        if is_over {
            return Some(next.event.conference.clone());
        }
        has_failed = true;
        sleep(pause).await;
        pause = (pause * 2).min(RETRY_MAX);
    }
}

/// Makes an event that says that other events are missing.
fn lost(conference: Name, time_ms: u64) -> Arc<Event> {
    Arc::new(Event {
        number: 0,
        time_ms,
        conference,
        kind: conference_api::EventKind::Lost,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_has_no_more_of_a_hook_than_its_host() {
        let hook = |url: &str| Webhook {
            url: url.to_owned(),
            secret: b"secret".to_vec(),
            events: None,
            authorities: None,
        };
        for (url, host) in [
            ("https://h.example/a?token=b", "https://h.example"),
            ("http://127.0.0.1:80", "http://127.0.0.1:80"),
            ("http://h.example?b", "http://h.example"),
        ] {
            assert_eq!(format!("{:?}", hook(url)), host);
        }
    }
}
