//! Errors of control-plane calls.

use thiserror::Error;

/// Why a control-plane call was refused. The state of the switch is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct ControlError {
    /// The kind of the error, which corresponds to one canonical gRPC code.
    pub kind: ControlErrorKind,
    /// Names the object, what was expected and what was found.
    pub message: String,
}

impl ControlError {
    /// Makes an error; nothing is logged.
    pub fn new(kind: ControlErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }
}

/// The kinds of [`ControlError`], named after gRPC's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlErrorKind {
    /// The entity does not exist.
    NotFound,
    /// The entity exists already.
    AlreadyExists,
    /// The call is malformed, so that it would be refused in every state of the switch.
    InvalidArgument,
    /// An index is beyond the end.
    OutOfRange,
    /// A table, group or queue is full.
    ResourceExhausted,
    /// The program declares the object as fixed.
    PermissionDenied,
    /// The current state does not allow the call, for example because no program is loaded.
    FailedPrecondition,
    /// Another call of the same batch was refused.
    Aborted,
    /// The switch does not support the call.
    Unimplemented,
}

pub(crate) type Controlled<T = ()> = Result<T, ControlError>;

pub(crate) fn refuse<T>(kind: ControlErrorKind, message: impl Into<String>) -> Controlled<T> {
    Err(ControlError::new(kind, message))
}

pub(crate) fn invalid<T>(message: impl Into<String>) -> Controlled<T> {
    refuse(ControlErrorKind::InvalidArgument, message)
}

pub(crate) fn missing(what: &str, id: usize) -> ControlError {
    ControlError::new(ControlErrorKind::NotFound, format!("no {what} {id}"))
}
