//! Where writes are made durable before they are answered: a store implements [`Store`], a device may have one.
//!
//! The data plane carries a call out first, the store keeps what came of it, then the call is answered; all in
//! one turn. Where the store fails, the data plane has the change, the answer is [`Error::NotStored`], and no
//! later call is carried out before the store has caught up.

use std::fmt;
use std::sync::Arc;

use dataplane::PortId;

use crate::batch::Batch;
use crate::error::{Error, OperationResult};

/// What a pipeline is made of again after a restart: the protocol that has set it implements this.
pub trait Origin: Send + Sync + 'static {
    /// Which protocol that is: the word by which it finds its own pipelines again.
    fn kind(&self) -> &'static str;

    /// The pipeline, as the protocol reads it.
    fn config(&self) -> Vec<u8>;

    /// What the protocol has learned with writes and needs to understand them, and its number, which rises when
    /// it changes; none if it is not newer than the given number. 0 is nothing.
    fn learned(&self, after: u64) -> Option<(u64, Vec<u8>)> {
        let _ = after;
        None
    }
}

/// A program that was read from BMv2's JSON, and of which no protocol knows more.
pub struct JsonOrigin(pub(crate) Arc<[u8]>);

impl JsonOrigin {
    /// By which a store's pipelines of it are known.
    pub const KIND: &str = "bmv2-json";
}

impl Origin for JsonOrigin {
    fn kind(&self) -> &'static str {
        Self::KIND
    }

    fn config(&self) -> Vec<u8> {
        self.0.to_vec()
    }
}

/// Which pipeline a batch was written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// The one that forwards.
    Forwards,
    /// The one that waits for its commit.
    Saved,
}

/// A pipeline that is to be kept.
pub type OriginOf = Option<Arc<dyn Origin>>;

/// What a call has come to. Of a batch the operations whose result is no error were carried out; results that
/// are missing at the end are of operations that were not attempted.
#[derive(Clone)]
pub enum Kept {
    /// A pipeline stands in a slot in place of whatever was there, with what was written to it; in
    /// [`Slot::Forwards`] it has ended a saved one.
    Pipeline(Slot, OriginOf, Arc<Batch>, Arc<[OperationResult]>),
    /// Ports were enabled (true) or disabled, whatever the pipeline.
    Ports(Arc<[(PortId, bool)]>),
    /// A batch was written to the pipeline of a slot.
    Written(Slot, OriginOf, Arc<Batch>, Arc<[OperationResult]>),
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, slot, batch) = match self {
            Self::Pipeline(slot, _, batch, _) => ("Pipeline", slot, batch),
            Self::Written(slot, _, batch, _) => ("Written", slot, batch),
            Self::Ports(ports) => return write!(f, "Ports({ports:?})"),
        };
        let n_operations = batch.operations.len();
        write!(f, "{what}({slot:?}, {n_operations} operations)")
    }
}

/// Why nothing could be stored: what failed, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Keeps what calls have come to. Called by one thread at a time, in the order of the turns; may block.
pub trait Store: Send + Sync + 'static {
    /// Makes durable what earlier calls have come to and [`Store::keep`] could not; called before a call does
    /// anything.
    ///
    /// # Errors
    /// It cannot yet; nothing is lost.
    fn catch_up(&self) -> Result<(), StoreError>;

    /// Makes durable what a call has come to: wholly, or not at all. What it cannot store it keeps for
    /// [`Store::catch_up`].
    ///
    /// # Errors
    /// It is not durable.
    fn keep(&self, kept: Kept) -> Result<(), StoreError>;

    /// Whether a switch that is started now would find all that was answered as done.
    fn is_current(&self) -> bool {
        true
    }
}

/// Runs a store's work where it may block.
pub(crate) async fn blocking(
    store: Option<Arc<dyn Store>>,
    work: impl FnOnce(&dyn Store) -> Result<(), StoreError> + Send + 'static,
) -> Result<(), Error> {
    let Some(store) = store else { return Ok(()) };
    let done = beside(move || work(&*store)).await?;
    done.map_err(|error| Error::NotStored(error.to_string()))
}

/// Runs what takes long on a thread that nobody waits for but the caller.
///
/// # Errors
/// [`Error::Stopped`]: the runtime ends.
pub(crate) async fn beside<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, Error> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(ended) if ended.is_panic() => std::panic::resume_unwind(ended.into_panic()),
        Err(_) => Err(Error::Stopped),
    }
}
