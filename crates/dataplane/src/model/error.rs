//! Why a control call was refused.

use thiserror::Error;

/// Why a control-plane call was refused; the switch is as it was before the call.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ControlError {
    /// The kind; maps one to one to a canonical gRPC code.
    pub kind: ControlErrorKind,
    /// What was expected, what came, and of which object.
    pub message: String,
}

impl ControlError {
    /// An error of a kind with its message.
    pub fn new(kind: ControlErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// The kinds of [`ControlError`], named as gRPC names its codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlErrorKind {
    /// No such entity.
    NotFound,
    /// The entity is there already.
    AlreadyExists,
    /// Badly formed, whatever the state.
    InvalidArgument,
    /// An index beyond the end.
    OutOfRange,
    /// Full.
    ResourceExhausted,
    /// Fixed by the program.
    PermissionDenied,
    /// Not in this state, for example without a program.
    FailedPrecondition,
    /// It belongs to others, one of which was refused.
    Aborted,
    /// Not supported.
    Unimplemented,
}

/// What a control call comes to.
pub(crate) type Controlled<T = ()> = Result<T, ControlError>;

/// A refusal.
pub(crate) fn refuse<T>(kind: ControlErrorKind, message: impl Into<String>) -> Controlled<T> {
    Err(ControlError::new(kind, message))
}

/// The refusal of a call that is badly formed.
pub(crate) fn invalid<T>(message: impl Into<String>) -> Controlled<T> {
    refuse(ControlErrorKind::InvalidArgument, message)
}

/// Why a call is refused that names what is not there.
pub(crate) fn missing(what: &str, id: usize) -> ControlError {
    ControlError::new(ControlErrorKind::NotFound, format!("no {what} {id}"))
}
