//! Errors of a whole call, and the result of one operation.

use dataplane::ControlError;

/// The result of one operation. A refused operation has changed nothing.
pub type OperationResult = Result<(), ControlError>;

/// Why a whole call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The device or its switch refused the call. The inner error says what kind of mistake the caller made.
    #[error(transparent)]
    Refused(#[from] ControlError),
    /// No pipeline is set, so there is nothing to read or write.
    #[error("no forwarding pipeline is set")]
    NoPipeline,
    /// Another pipeline has replaced the one for which the call was made, so the call's ids and widths may mean
    /// something else now. Nothing was done.
    #[error(
        "nothing was done, since the forwarding pipeline was replaced meanwhile: look at the pipeline \
         config, and make the call anew for this pipeline"
    )]
    Replaced {
        /// Generation of the pipeline that the call was made for.
        made_for: u64,
        /// Generation of the pipeline that was found; 0: none.
        found: u64,
    },
    /// The same operations gave different results in different workers, so the workers' tables may differ now.
    #[error(
        "the workers gave different results for the same write, so their tables are no longer equal: set the pipeline again, or restart the switch"
    )]
    Apart,
    /// The store failed, so a restart may lose the change of this call or of an earlier call. The text says whether the
    /// data plane has the change.
    #[error("{0}")]
    NotStored(String),
    /// The switch has stopped. Work that had not started was not done.
    #[error("the switch has stopped")]
    Stopped,
}
