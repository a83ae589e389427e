//! The outcome of a call.

use bmv2_thrift::ArgsError;
use bmv2_thrift::exception::{Code, Exception};
use bmv2_thrift::limits::ANSWER_BYTES_MAX;
use bmv2_thrift::message::Structure;
use bmv2_thrift::wire::write::Writer;
use bmv2_thrift::wire::{Failure, FailureKind, Type};
use dataplane::{ControlError, ControlErrorKind};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// An exception that the service declares.
    Declared(Exception),
    /// A failure that the service does not declare.
    Failed(Failure),
}

pub(crate) type Answered = Result<Answer, Refusal>;

impl Refusal {
    /// Makes the failure of a call whose arguments do not fit the call.
    pub(crate) fn protocol(message: String) -> Self {
        let kind = FailureKind::Protocol;
        Self::Failed(Failure { kind, message })
    }

    /// Makes the failure of a call that fails for a reason for which its service declares no exception code.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        let (kind, message) = (FailureKind::Internal, message.into());
        Self::Failed(Failure { kind, message })
    }
}

impl From<Exception> for Refusal {
    fn from(exception: Exception) -> Self {
        Self::Declared(exception)
    }
}

impl From<ArgsError> for Refusal {
    fn from(error: ArgsError) -> Self {
        Self::protocol(error.to_string())
    }
}

/// Converts errors of the device, which are not the caller's fault.
impl From<control::Error> for Refusal {
    fn from(error: control::Error) -> Self {
        Self::internal(error.to_string())
    }
}

/// Converts the data plane's errors to an exception. `code` chooses the exception's code.
pub(crate) fn declared<C: Code>(
    code: impl FnOnce(ControlErrorKind) -> C,
) -> impl FnOnce(ControlError) -> Refusal {
    move |error| Exception::new(code(error.kind), error.message).into()
}

#[derive(Debug)]
pub(crate) enum Answer {
    Void,
    I32(i32),
    I64(i64),
    Bytes(Vec<u8>),
    /// A structure or container, already encoded.
    Encoded(Type, Vec<u8>),
}

impl Answer {
    pub(crate) fn encoded(of: Type, write: impl FnOnce(&mut Writer)) -> Self {
        let mut writer = Writer::default();
        write(&mut writer);
        Self::Encoded(of, writer.into_bytes())
    }

    pub(crate) fn structure(value: &impl Structure) -> Self {
        Self::encoded(Type::Struct, |writer| value.write(writer))
    }

    /// Encodes a short list of structures.
    pub(crate) fn structures(values: &[impl Structure]) -> Self {
        let mut writer = Writer::default();
        values.iter().for_each(|value| value.write(&mut writer));
        Self::list(Type::Struct, values.len(), &writer)
    }

    /// Makes a list from its values, which are already encoded one after the other.
    pub(crate) fn list(of: Type, n_values: usize, values: &Writer) -> Self {
        let write = |writer: &mut Writer| writer.list(of, n_values).encoded(values.written());
        Self::encoded(Type::List, write)
    }

    /// Writes the value as field 0 of the answer.
    pub(crate) fn write(&self, writer: &mut Writer) {
        match self {
            Self::Void => {}
            Self::I32(value) => writer.field(0, Type::I32).i32(*value),
            Self::I64(value) => writer.field(0, Type::I64).i64(*value),
            Self::Bytes(value) => writer.field(0, Type::Bytes).bytes(value),
            Self::Encoded(of, value) => writer.field(0, *of).encoded(value),
        }
    }
}

pub(crate) fn expect_room(writer: &Writer) -> Result<(), Refusal> {
    if writer.n_bytes() <= ANSWER_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::internal(format!(
        "the answer is longer than {ANSWER_BYTES_MAX} bytes: P4Runtime reads in pieces"
    )))
}
