//! Changes that control calls make to the device. Followers (the subscribers to changes) get the changes in the order
//! of the calls, and use them to keep a copy of the device's state up to date.
//!
//! A follower subscribes first ([`crate::Device::changes`]) and then reads everything. [`crate::Reading::change`] is
//! the number of the last change that the reading includes, so the follower applies only changes with higher numbers.
//! Counters and registers that packets change are not published.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::batch::Batch;
use crate::device::lock;
use crate::error::OperationResult;
use crate::limits::CHANGED_UPDATES_KEPT_MAX;
use crate::pipeline::Pipeline;

/// A call that every worker has executed.
#[derive(Debug, Clone)]
pub struct Change {
    /// The number of the change. Changes are numbered consecutively, from 1.
    pub number: u64,
    /// The pipeline that forwards since this change, or to which the batch was written.
    pub pipeline: Arc<Pipeline>,
    /// The effect of the call.
    pub what: Changed,
}

/// What a call has changed.
#[derive(Debug, Clone)]
pub enum Changed {
    /// Everything: a new pipeline forwards. Its state includes the updates that were written to it while it was saved
    /// and waited for its commit.
    Pipeline,
    /// A batch was written. An operation was executed if its result (at the same index) is not an error. Results
    /// missing at the end belong to operations that were not attempted.
    Written(Arc<Batch>, Arc<[OperationResult]>),
}

impl Changed {
    /// The size of the change in updates, which counts against [`CHANGED_UPDATES_KEPT_MAX`].
    fn n_updates(&self) -> usize {
        match self {
            Self::Pipeline => 1,
            Self::Written(batch, _) => batch.operations.iter().map(|it| it.n_updates()).sum(),
        }
    }
}

/// A follower's queue of changes; dropping it ends the subscription.
pub struct Changes {
    published: Arc<Published>,
    next: u64,
}

/// The follower was too slow and has lost this many changes, so it must read all state again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reader has missed {0} changes, since it was too slow: read all state again")]
pub struct Missed(pub u64);

/// Publishes changes to followers. Keeps no changes while there is no follower.
#[derive(Default)]
pub(crate) struct Publisher(Arc<Published>);

#[derive(Default)]
struct Published {
    state: Mutex<State>,
    more: Notify,
}

#[derive(Default)]
struct State {
    n_published: u64,
    n_followers: usize,
    /// The newest changes, in order.
    kept: VecDeque<Change>,
    /// Sum of the sizes of the changes in `kept`, in updates.
    n_updates: usize,
    is_over: bool,
}

impl State {
    /// Adds a change. While all changes together have more than [`CHANGED_UPDATES_KEPT_MAX`] updates, drops the oldest
    /// one, but always keeps the newest one.
    fn keep(&mut self, change: Change) {
        self.n_updates += change.what.n_updates();
        self.kept.push_back(change);
        while self.n_updates > CHANGED_UPDATES_KEPT_MAX
            && self.kept.len() > 1
            && let Some(oldest) = self.kept.pop_front()
        {
            self.n_updates -= oldest.what.n_updates();
        }
    }

    /// Returns a follower's next change, or `None` if there is none yet.
    fn next(&self, next: &mut u64) -> Option<Result<Change, Missed>> {
        let first = self.n_published + 1 - self.kept.len() as u64;
        if *next < first {
            let missed = Missed(first - *next);
            *next = first;
            return Some(Err(missed));
        }
        let place = usize::try_from(*next - first).ok()?;
        let change = self.kept.get(place)?.clone();
        *next += 1;
        Some(Ok(change))
    }
}

impl Changes {
    /// Waits for the next change; `None` when the device is gone. Cancel-safe.
    ///
    /// # Errors
    /// Changes were missed. The next call returns the oldest change that is still kept.
    pub async fn next(&mut self) -> Option<Result<Change, Missed>> {
        let Self { published, next } = self;
        loop {
            let mut more = std::pin::pin!(published.more.notified());
            more.as_mut().enable();
            {
                let state = lock(&published.state);
                let found = state.next(next);
                if found.is_some() || state.is_over {
                    return found;
                }
            }
            more.await;
        }
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        let mut state = lock(&self.published.state);
        state.n_followers -= 1;
        if state.n_followers == 0 {
            state.kept.clear();
            state.n_updates = 0;
        }
    }
}

impl Publisher {
    pub(crate) fn follow(&self) -> Changes {
        let mut state = lock(&self.0.state);
        state.n_followers += 1;
        Changes {
            published: Arc::clone(&self.0),
            next: state.n_published + 1,
        }
    }

    pub(crate) fn n_published(&self) -> u64 {
        lock(&self.0.state).n_published
    }

    /// Publishes a change. The caller must still have exclusive access to the device, so that the numbers follow the
    /// order of the calls.
    pub(crate) fn publish(&self, pipeline: &Arc<Pipeline>, what: impl FnOnce() -> Changed) {
        let mut state = lock(&self.0.state);
        state.n_published += 1;
        if state.n_followers > 0 {
            let (number, pipeline, what) = (state.n_published, Arc::clone(pipeline), what());
            state.keep(Change {
                number,
                pipeline,
                what,
            });
            self.0.more.notify_waiters();
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        lock(&self.0.state).is_over = true;
        self.0.more.notify_waiters();
    }
}
