//! Errors of single updates and requests, and the gRPC status of a batch that has such errors.
//!
//! Source: P4Runtime 1.5.0, "Error Reporting Messages" and "Write RPC: Error Reporting".

use dataplane::{ControlError, ControlErrorKind};
use p4runtime_proto::google::rpc;
use p4runtime_proto::p4::v1;
use prost::{Message, Name};
use tonic::{Code, Status};

use crate::limits;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct EntityError {
    pub code: Code,
    /// What was expected, what was found, and the object's name.
    pub message: String,
}

pub(crate) type EntityResult<T = ()> = Result<T, EntityError>;

impl EntityError {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message)
    }

    pub(crate) fn unimplemented(message: impl Into<String>) -> Self {
        Self::new(Code::Unimplemented, message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Code::NotFound, message)
    }

    pub(crate) fn denied(message: impl Into<String>) -> Self {
        Self::new(Code::PermissionDenied, message)
    }
}

impl From<ControlError> for EntityError {
    fn from(error: ControlError) -> Self {
        let code = match error.kind {
            ControlErrorKind::NotFound => Code::NotFound,
            ControlErrorKind::AlreadyExists => Code::AlreadyExists,
            ControlErrorKind::InvalidArgument => Code::InvalidArgument,
            ControlErrorKind::OutOfRange => Code::OutOfRange,
            ControlErrorKind::ResourceExhausted => Code::ResourceExhausted,
            ControlErrorKind::PermissionDenied => Code::PermissionDenied,
            ControlErrorKind::FailedPrecondition => Code::FailedPrecondition,
            ControlErrorKind::Aborted => Code::Aborted,
            ControlErrorKind::Unimplemented => Code::Unimplemented,
        };
        Self::new(code, error.message)
    }
}

/// The code and message that PI, BMv2's P4Runtime server, returns: controllers look for them and then set their
/// pipeline.
pub(crate) fn no_pipeline() -> EntityError {
    let message = "No forwarding pipeline config set for this device";
    EntityError::new(Code::FailedPrecondition, message)
}

/// The error if the program that forwards has no P4Info, so that P4Runtime clients cannot address its objects.
pub(crate) fn no_p4info() -> EntityError {
    let EntityError { code, message } = no_pipeline();
    let message = format!(
        "{message}: its program came without P4Info, from the command line or by another protocol"
    );
    EntityError::new(code, message)
}

impl From<control::Error> for EntityError {
    fn from(error: control::Error) -> Self {
        let code = match &error {
            control::Error::Refused(error) => return error.clone().into(),
            control::Error::NoPipeline => return no_pipeline(),
            control::Error::Replaced { .. } => Code::Aborted,
            control::Error::Apart | control::Error::NotStored(_) => Code::Internal,
            control::Error::Stopped => Code::Unavailable,
        };
        Self::new(code, error.to_string())
    }
}

impl From<EntityError> for Status {
    fn from(error: EntityError) -> Self {
        Status::new(error.code, error.message)
    }
}

/// Why a batch of updates was not applied completely.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Nothing was attempted.
    #[error("{0}")]
    Refused(EntityError),
    /// One result per update, in the batch's order; at least one is an error.
    #[error("{}", summary("update", .0))]
    Updates(Vec<Result<(), EntityError>>),
}

impl From<WriteError> for Status {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::Refused(error) => error.into(),
            WriteError::Updates(results) => batch_status("update", &results),
        }
    }
}

/// The status of a batch with at least one error: code `UNKNOWN`, one `p4.v1.Error` per element.
///
/// The errors travel in HTTP/2 headers, of which clients accept 8 or 16 KiB by default ("gRPC Metadata Maximum Size");
/// above that size, a client reports `RESOURCE_EXHAUSTED`. If the errors do not fit, the status has none of them, and
/// its message explains how to get them.
pub(crate) fn batch_status(element: &str, results: &[EntityResult]) -> Status {
    let mut message = summary(element, results);
    message.truncate(message.floor_char_boundary(limits::ERROR_MESSAGE_BYTES_MAX));
    let details = results.iter().map(|result| {
        let error = match result {
            Ok(()) => v1::Error::default(),
            Err(error) => v1::Error {
                canonical_code: error.code as i32,
                message: error.message.clone(),
                ..Default::default()
            },
        };
        prost_types::Any {
            type_url: v1::Error::type_url(),
            value: error.encode_to_vec(),
        }
    });
    let status = rpc::Status {
        code: rpc::Code::Unknown as i32,
        message: message.clone(),
        details: details.collect(),
    };
    if status.encoded_len() <= limits::ERROR_DETAILS_BYTES_MAX {
        return Status::with_details(Code::Unknown, message, status.encode_to_vec().into());
    }
    message.push_str(&format!(
        ". Send fewer {element}s at once to get the error of each"
    ));
    Status::unknown(message)
}

fn summary(element: &str, results: &[EntityResult]) -> String {
    let mut failed = results
        .iter()
        .enumerate()
        .filter_map(|(index, result)| Some((index, result.as_ref().err()?)));
    let Some((index, error)) = failed.next() else {
        return format!("every {element} succeeded");
    };
    format!(
        "{} of {} {element}s failed, first {element} {}: {error}",
        failed.count() + 1,
        results.len(),
        index + 1,
    )
}
