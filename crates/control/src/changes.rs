//! What has changed, told in order to whoever follows: a state file, a controller beside another.
//!
//! A follower subscribes ([`crate::Device::changes`]), then reads everything. The reading says the number of
//! the last change that is in it ([`crate::Reading::change`]); those with higher numbers come after it. What
//! packets change, counts and registers, is not told.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;

use tokio::sync::Notify;

use crate::batch::Batch;
use crate::device::lock;
use crate::error::OperationResult;
use crate::limits::CHANGED_UPDATES_KEPT_MAX;
use crate::pipeline::Pipeline;

/// A call that has been carried out in every worker.
#[derive(Debug, Clone)]
pub struct Change {
    /// From 1, one more each.
    pub number: u64,
    /// The pipeline that forwards since then, or whose state it is.
    pub pipeline: Arc<Pipeline>,
    /// What was done.
    pub what: Changed,
}

/// What a call has changed.
#[derive(Debug, Clone)]
pub enum Changed {
    /// Everything: the pipeline is new, with what was written to it while it was saved.
    Pipeline,
    /// What a batch says, where the result at the same place is no error; the results of operations that
    /// were not attempted are missing at the end.
    Written(Arc<Batch>, Arc<[OperationResult]>),
}

impl Changed {
    /// What it counts for among those that are kept.
    fn n_updates(&self) -> usize {
        match self {
            Self::Pipeline => 1,
            Self::Written(batch, _) => batch.operations.iter().map(|it| it.n_updates()).sum(),
        }
    }
}

/// The changes behind a moment. Dropped, it follows no more.
pub struct Changes {
    told: Arc<Told>,
    /// The number of the next one.
    next: u64,
}

/// The follower was too slow, and so many changes are lost to it: what it knows is to be read anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the reader is {0} changes behind, more than are kept: read all state again")]
pub struct Missed(pub u64);

/// Where changes are told. Nothing is kept while nobody follows.
#[derive(Default)]
pub(crate) struct Teller(Arc<Told>);

#[derive(Default)]
struct Told {
    state: Mutex<State>,
    more: Notify,
}

#[derive(Default)]
struct State {
    /// The number of the last change.
    n_told: u64,
    n_followers: usize,
    /// The last ones, in order.
    kept: VecDeque<Change>,
    /// What those count for.
    n_updates: usize,
    is_over: bool,
}

impl State {
    /// The newest is kept whatever it counts for.
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

    /// What comes next for a follower; none if there is nothing yet.
    fn next(&self, next: &mut u64) -> Option<Result<Change, Missed>> {
        let first = self.n_told + 1 - self.kept.len() as u64;
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
    /// The next change; none when the device is gone. May be given up at any time.
    ///
    /// # Errors
    /// Some were missed. The next call gives the oldest of those that were not.
    pub async fn next(&mut self) -> Option<Result<Change, Missed>> {
        let Self { told, next } = self;
        loop {
            let mut more = std::pin::pin!(told.more.notified());
            more.as_mut().enable();
            {
                let state = lock(&told.state);
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
        let mut state = lock(&self.told.state);
        state.n_followers -= 1;
        if state.n_followers == 0 {
            state.kept.clear();
            state.n_updates = 0;
        }
    }
}

impl Teller {
    pub(crate) fn follow(&self) -> Changes {
        let mut state = lock(&self.0.state);
        state.n_followers += 1;
        Changes {
            told: Arc::clone(&self.0),
            next: state.n_told + 1,
        }
    }

    /// The number of the last change.
    pub(crate) fn n_told(&self) -> u64 {
        lock(&self.0.state).n_told
    }

    /// Told while whoever made the change has its turn still, so that numbers are in the calls' order.
    pub(crate) fn tell(&self, pipeline: &Arc<Pipeline>, what: impl FnOnce() -> Changed) {
        let mut state = lock(&self.0.state);
        state.n_told += 1;
        if state.n_followers > 0 {
            let (number, pipeline, what) = (state.n_told, Arc::clone(pipeline), what());
            state.keep(Change {
                number,
                pipeline,
                what,
            });
            self.0.more.notify_waiters();
        }
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        lock(&self.0.state).is_over = true;
        self.0.more.notify_waiters();
    }
}
