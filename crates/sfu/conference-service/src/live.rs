//! What can change while the service runs: the settings that a reload reads from the configuration again, and whether
//! the service drains, that is, takes no new conferences and participants.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;

use crate::limits::{Limits, LimitsConfig};
use crate::tokens::Keys;
use crate::webhooks::Webhook;

/// The settings that a reload reads from the configuration again.
#[derive(Debug)]
pub struct Reloadable {
    /// The keys that verify tokens.
    pub keys: Keys,
    /// The certificate of HTTPS; without it, HTTP is served.
    pub tls: Option<Arc<tls::Server>>,
    /// How often clients may make requests.
    pub limits: LimitsConfig,
    /// Addresses to which the service also sends events.
    pub webhooks: Vec<Webhook>,
    /// After how long a silent socket is signed out.
    pub silence: Duration,
}

impl Reloadable {
    /// Makes settings with these keys. The rest is as simple as possible: HTTP without TLS, and no webhooks.
    #[must_use]
    pub fn of_keys(keys: Keys, silence: Duration) -> Reloadable {
        Reloadable {
            keys,
            tls: None,
            limits: LimitsConfig::default(),
            webhooks: Vec::new(),
            silence,
        }
    }
}

/// Access to the newest settings. All clones share the same settings.
#[derive(Clone, Debug)]
pub struct Live {
    newest: watch::Receiver<Arc<Reloadable>>,
    limits: Arc<Limits>,
    draining: Arc<AtomicBool>,
}

impl Live {
    /// Follows a channel of settings. If its sender is gone, the last settings stay.
    #[must_use]
    pub fn new(newest: watch::Receiver<Arc<Reloadable>>) -> Live {
        Live {
            newest,
            limits: Arc::default(),
            draining: Arc::default(),
        }
    }

    /// Makes a `Live` whose settings never change.
    #[must_use]
    pub fn fixed(reloadable: Reloadable) -> Live {
        let (_, newest) = watch::channel(Arc::new(reloadable));
        Live::new(newest)
    }

    /// Returns the newest settings.
    #[must_use]
    pub fn get(&self) -> Arc<Reloadable> {
        Arc::clone(&self.newest.borrow())
    }

    /// Waits until there are newer settings than at the last call on this clone.
    pub async fn changed(&mut self) {
        if self.newest.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The counts of recent requests.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Whether the service drains, that is, takes no new conferences and participants.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Begins or ends a drain. A drain also ends with the process.
    pub fn set_draining(&self, draining: bool) {
        if self.draining.swap(draining, Ordering::Relaxed) != draining {
            tracing::info!(draining, "a drain began or ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_newest_counts_and_the_last_stays() {
        let of = |s| Arc::new(Reloadable::of_keys(Keys::default(), Duration::from_secs(s)));
        let (sender, receiver) = watch::channel(of(5));
        let mut live = Live::new(receiver);
        let other = live.clone();
        sender.send_replace(of(6));
        live.changed().await;
        assert_eq!(other.get().silence, Duration::from_secs(6));
        drop(sender);
        let again = tokio::time::timeout(Duration::from_millis(20), live.changed());
        assert!(again.await.is_err(), "nothing is newer");
        assert_eq!(live.get().silence, Duration::from_secs(6));
        other.set_draining(true);
        assert!(live.is_draining());
    }
}
