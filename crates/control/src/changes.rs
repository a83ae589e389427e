//! What has changed, told in order to whoever follows: a state file, a controller beside another.
//!
//! A follower subscribes ([`crate::Device::changes`]), then reads everything. The reading says the number of
//! the last change that is in it ([`crate::Reading::change`]); those with higher numbers come after it. What
//! packets change, counts and registers, is not told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use crate::batch::Batch;
use crate::error::OperationResult;
use crate::limits::CHANGES_WAITING_MAX;
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

/// The changes behind a moment. Dropped, nobody follows.
pub struct Changes(broadcast::Receiver<Change>);

/// The follower was too slow, and so many changes are lost to it: what it knows is to be read anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} changes were not followed in time: read everything anew")]
pub struct Missed(pub u64);

impl Changes {
    /// The next change; none when the device is gone. May be given up at any time.
    ///
    /// # Errors
    /// Some were missed. The next call gives the oldest of those that were not.
    pub async fn next(&mut self) -> Option<Result<Change, Missed>> {
        match self.0.recv().await {
            Ok(change) => Some(Ok(change)),
            Err(RecvError::Lagged(n_missed)) => Some(Err(Missed(n_missed))),
            Err(RecvError::Closed) => None,
        }
    }
}

/// Where changes are told. Costs nothing while nobody follows.
pub(crate) struct Teller {
    n_told: AtomicU64,
    followers: broadcast::Sender<Change>,
}

impl Default for Teller {
    fn default() -> Self {
        Self {
            n_told: AtomicU64::new(0),
            followers: broadcast::Sender::new(CHANGES_WAITING_MAX),
        }
    }
}

impl Teller {
    pub(crate) fn follow(&self) -> Changes {
        Changes(self.followers.subscribe())
    }

    /// The number of the last change.
    pub(crate) fn n_told(&self) -> u64 {
        self.n_told.load(Ordering::Acquire)
    }

    /// Told while whoever made the change has its turn still, so that numbers are in the calls' order.
    pub(crate) fn tell(&self, pipeline: &Arc<Pipeline>, what: impl FnOnce() -> Changed) {
        let number = self.n_told.fetch_add(1, Ordering::AcqRel) + 1;
        if self.followers.receiver_count() > 0 {
            let pipeline = Arc::clone(pipeline);
            let what = what();
            // The last of them may have gone.
            let _ = self.followers.send(Change {
                number,
                pipeline,
                what,
            });
        }
    }
}
