//! The interface of a store, which makes writes durable before they are answered. A device may have a store.
//!
//! First the data plane executes a call, then the store keeps the result, then the call is answered, all under one
//! exclusive access. If the store fails, the data plane has the change, the answer is [`Error::NotStored`], and no
//! later call is executed before the store has caught up.

use std::fmt;
use std::sync::Arc;

use dataplane::PortId;

use crate::batch::Batch;
use crate::error::{Error, OperationResult};

/// What a store needs to rebuild a pipeline after a restart. The protocol that set the pipeline implements this trait.
pub trait Origin: Send + Sync + 'static {
    /// The protocol's name, by which the protocol recognises its own pipelines.
    fn kind(&self) -> &'static str;

    /// The pipeline in the protocol's own format.
    fn config(&self) -> Vec<u8>;

    /// Returns the state that the protocol learned from writes and needs in order to interpret these writes, such as
    /// numbers that the protocol assigned. The state has a number, which rises with each change of the state; number 0
    /// means the empty state. Returns `None` if the state's number is not above `after`.
    fn learned(&self, after: u64) -> Option<(u64, Vec<u8>)> {
        let _ = after;
        None
    }
}

/// A program read from BMv2 JSON for which no protocol has data of its own.
pub struct JsonOrigin(pub(crate) Arc<[u8]>);

impl JsonOrigin {
    /// The value of `kind` for such pipelines.
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

/// One of a device's two slots for pipelines. A pipeline is set in a slot, and batches are written to the pipeline in a
/// slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// The pipeline that forwards.
    Forwards,
    /// The saved pipeline, which waits for its commit.
    Saved,
}

/// A pipeline's origin; `None` if the pipeline was set without an origin.
pub type OriginOf = Option<Arc<dyn Origin>>;

/// The result of a call. An operation of a batch was executed if its own result is not an error. Results missing at the
/// end belong to operations that were not attempted.
#[derive(Clone)]
pub enum Kept {
    /// A pipeline replaced the one in a slot, and the batch was written to the new pipeline. If the slot is
    /// [`Slot::Forwards`], a saved pipeline was discarded.
    Pipeline(Slot, OriginOf, Arc<Batch>, Arc<[OperationResult]>),
    /// Ports were enabled (true) or disabled, independently of the pipeline.
    Ports(Arc<[(PortId, bool)]>),
    /// A batch was written to the pipeline in a slot.
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

/// A store's failure: what failed, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StoreError(pub String);

/// Keeps the results of control calls. Its methods are called by one thread at a time, in the order of these control
/// calls, and may block.
pub trait Store: Send + Sync + 'static {
    /// Makes durable the results of earlier calls that [`Store::keep`] could not store. The device calls this before a
    /// call changes anything.
    ///
    /// # Errors
    /// The store still cannot make these results durable. None of them is lost.
    fn catch_up(&self) -> Result<(), StoreError>;

    /// Makes the result of a call durable, completely or not at all. If this fails, the store holds the result in
    /// memory for [`Store::catch_up`].
    ///
    /// # Errors
    /// The result is not durable.
    fn keep(&self, kept: Kept) -> Result<(), StoreError>;

    /// Whether a switch that starts from this store now would have the changes of all calls that were answered with
    /// success.
    fn is_current(&self) -> bool {
        true
    }
}

/// Runs a store's work on a thread that may block; does nothing without a store.
pub(crate) async fn blocking(
    store: Option<Arc<dyn Store>>,
    work: impl FnOnce(&dyn Store) -> Result<(), StoreError> + Send + 'static,
) -> Result<(), Error> {
    let Some(store) = store else { return Ok(()) };
    let done = beside(move || work(&*store)).await?;
    done.map_err(|error| Error::NotStored(error.to_string()))
}

/// Runs long work on a thread of its own, so that only the caller waits for it.
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
