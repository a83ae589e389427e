//! What a call comes to.

use bmv2_thrift::ArgsError;
use bmv2_thrift::exception::{Code, Exception};
use bmv2_thrift::limits::ANSWER_BYTES_MAX;
use bmv2_thrift::message::Structure;
use bmv2_thrift::wire::write::Writer;
use bmv2_thrift::wire::{Failure, FailureKind, Type};
use dataplane::{ControlError, ControlErrorKind};

/// What a call comes to that is not carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its service declares it.
    Declared(Exception),
    /// Its service does not.
    Failed(Failure),
}

pub(crate) type Answered = Result<Answer, Refusal>;

impl Refusal {
    /// The arguments are not those of the call.
    pub(crate) fn protocol(message: String) -> Self {
        let kind = FailureKind::Protocol;
        Self::Failed(Failure { kind, message })
    }

    /// The call cannot be carried out, and its service has no code for that.
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

/// What is no mistake of the caller's in an entity.
impl From<control::Error> for Refusal {
    fn from(error: control::Error) -> Self {
        Self::internal(error.to_string())
    }
}

/// A code for what the data plane refused, with its words.
pub(crate) fn declared<C: Code>(
    code: impl FnOnce(ControlErrorKind) -> C,
) -> impl FnOnce(ControlError) -> Refusal {
    move |error| Exception::new(code(error.kind), error.message).into()
}

/// What a call gives back.
#[derive(Debug)]
pub(crate) enum Answer {
    Void,
    I32(i32),
    I64(i64),
    Bytes(Vec<u8>),
    /// A structure or container that is written already.
    Encoded(Type, Vec<u8>),
}

impl Answer {
    /// A structure or container.
    pub(crate) fn encoded(of: Type, write: impl FnOnce(&mut Writer)) -> Self {
        let mut writer = Writer::default();
        write(&mut writer);
        Self::Encoded(of, writer.into_bytes())
    }

    /// A structure.
    pub(crate) fn structure(value: &impl Structure) -> Self {
        Self::encoded(Type::Struct, |writer| value.write(writer))
    }

    /// A list of few structures.
    pub(crate) fn structures(values: &[impl Structure]) -> Self {
        let mut writer = Writer::default();
        values.iter().for_each(|value| value.write(&mut writer));
        Self::list(Type::Struct, values.len(), &writer)
    }

    /// A list whose values are written behind each other already.
    pub(crate) fn list(of: Type, n_values: usize, values: &Writer) -> Self {
        let write = |writer: &mut Writer| writer.list(of, n_values).encoded(values.written());
        Self::encoded(Type::List, write)
    }

    /// The field that it is in the answer's structure.
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

/// Refuses to write on where an answer has become too long.
pub(crate) fn expect_room(writer: &Writer) -> Result<(), Refusal> {
    if writer.n_bytes() <= ANSWER_BYTES_MAX {
        return Ok(());
    }
    Err(Refusal::internal(format!(
        "the answer is longer than {ANSWER_BYTES_MAX} bytes: P4Runtime reads in pieces"
    )))
}
