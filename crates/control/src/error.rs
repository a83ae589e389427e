//! Why a call was refused, or not answered.

use dataplane::ControlError;

/// What one operation came to; refused, it has changed nothing.
pub type OperationResult = Result<(), ControlError>;

/// Why a call came to nothing as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The device or its switch does not do what was asked; says of which kind the mistake is.
    #[error(transparent)]
    Refused(#[from] ControlError),
    /// No pipeline is set.
    #[error("no forwarding pipeline is set")]
    NoPipeline,
    /// What was asked for was made for a pipeline that another has replaced: its ids and widths say
    /// nothing of the other's. Nothing was done.
    #[error(
        "nothing was done, since the forwarding pipeline was replaced meanwhile: look at the pipeline \
         config, and call again with what is meant for it"
    )]
    Replaced {
        /// The generation of the one it was made for.
        made_for: u64,
        /// Of the one that was found; 0 is none.
        found: u64,
    },
    /// The same operations came to different results in different workers.
    #[error(
        "the workers gave different results for the same write, so their tables are no longer equal: set the pipeline again, or restart the switch"
    )]
    Apart,
    /// The state file could not be written: after a restart the switch may not have what this call has changed,
    /// or what the one before it has. Says whether the data plane has it.
    #[error("{0}")]
    NotStored(String),
    /// The switch has stopped. What it had not begun was not done.
    #[error("the switch has stopped")]
    Stopped,
}
